"""A second opinion on the references, from JAX in float64 on the CPU: a mistake that weft and a reference share would show here.

`JAX[name]` takes what the reference takes, arrays in place of operands, and gives the same result; None for a case that JAX has not.
"""
import math

import numpy as np

import jax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
import jax.scipy.special as jsp  # noqa: E402

JAX = {}


def second(*names):
    def decorate(f):
        for name in names:
            JAX[name] = f
        return f
    return decorate


def real(f):
    return lambda x, *a, **kw: f(jnp.asarray(x, jnp.float64), *a, **kw)


# ---- pointwise ----

for _name, _f in {
        "erf": jsp.erf, "erfc": jsp.erfc, "lgamma": jsp.gammaln, "expm1": jnp.expm1, "log1p": jnp.log1p, "log2": jnp.log2, "exp2": jnp.exp2, "log10": jnp.log10,
        "sinh": jnp.sinh, "cosh": jnp.cosh, "asin": jnp.arcsin, "acos": jnp.arccos, "atan": jnp.arctan, "asinh": jnp.arcsinh, "acosh": jnp.arccosh,
        "atanh": jnp.arctanh, "exp": jnp.exp, "log": jnp.log, "sqrt": jnp.sqrt, "rsqrt": lax.rsqrt, "tanh": jnp.tanh, "sin": jnp.sin, "cos": jnp.cos, "sigmoid": jax.nn.sigmoid,
        "silu": jax.nn.silu, "softsign": jax.nn.soft_sign, "logsigmoid": jax.nn.log_sigmoid, "hardsigmoid": jax.nn.hard_sigmoid, "hardswish": jax.nn.hard_swish,
        "mish": jax.nn.mish, "selu": jax.nn.selu, "relu6": jax.nn.relu6}.items():
    JAX[_name] = real(_f)
for _name, _f in {"maximum": jnp.maximum, "minimum": jnp.minimum, "atan2": jnp.arctan2, "hypot": jnp.hypot, "copysign": jnp.copysign, "fmod": jnp.fmod,
                  "eq": jnp.equal, "lt": jnp.less, "where": jnp.where, "mul": jnp.multiply}.items():
    JAX[_name] = _f
JAX["gelu"] = lambda x, approximate="none": jax.nn.gelu(jnp.asarray(x), approximate=approximate == "tanh")
JAX["elu"] = real(lambda x, alpha=1: jax.nn.elu(x, alpha))
JAX["celu"] = real(lambda x, alpha=1: jax.nn.celu(x, alpha))
JAX["leaky_relu"] = real(lambda x, negative_slope=0.01: jax.nn.leaky_relu(x, negative_slope))
JAX["glu"] = lambda x, dim=-1: jax.nn.glu(jnp.asarray(x), dim)
JAX["one_hot"] = lambda x, n: jax.nn.one_hot(jnp.asarray(x), n if n > 0 else int(x.max()) + 1)

# ---- reductions and lines ----

for _name, _f in {"sum": jnp.sum, "prod": jnp.prod, "mean": jnp.mean, "amax": jnp.max, "amin": jnp.min, "any": jnp.any, "all": jnp.all, "argmax": jnp.argmax,
                  "argmin": jnp.argmin, "nansum": jnp.nansum, "nanmean": jnp.nanmean, "count_nonzero": jnp.count_nonzero}.items():
    JAX[_name] = lambda x, dim=None, keepdim=False, f=_f: f(jnp.asarray(x), axis=dim if np.ndim(x) else None, keepdims=keepdim)


@second("var")
def var(x, dim=None, correction=1, keepdim=False):
    n = math.prod(x.shape) if dim is None else math.prod(x.shape[k] for k in ((dim,) if isinstance(dim, int) else dim))
    return jnp.var(x, axis=dim, ddof=correction, keepdims=keepdim) if n > correction else None


@second("std")
def std(x, dim=None, correction=1, keepdim=False):
    v = var(x, dim, correction, keepdim)
    return None if v is None else jnp.sqrt(v)


JAX["logsumexp"] = lambda x, dim=None, keepdim=False: jsp.logsumexp(jnp.asarray(x, jnp.float64), axis=dim if np.ndim(x) else None, keepdims=keepdim)
JAX["softmax"] = lambda x, dim=-1: jax.nn.softmax(jnp.asarray(x), dim)
JAX["log_softmax"] = lambda x, dim=-1: jax.nn.log_softmax(jnp.asarray(x), dim)
JAX["cumsum"] = lambda x, dim: jnp.cumsum(jnp.atleast_1d(x), dim).reshape(x.shape)
JAX["cumprod"] = lambda x, dim: jnp.cumprod(jnp.atleast_1d(x), dim).reshape(x.shape)
JAX["logcumsumexp"] = lambda x, dim: lax.cumlogsumexp(jnp.atleast_1d(x), dim % x.ndim) if x.ndim else None
JAX["sort"] = lambda x, dim=-1, descending=False: None if descending or not x.ndim else (jnp.sort(jnp.asarray(x), dim), jnp.argsort(jnp.asarray(x), dim, stable=True))
JAX["argsort"] = lambda x, dim=-1, descending=False: None if descending or not x.ndim else jnp.argsort(jnp.asarray(x), dim, stable=True)
JAX["topk"] = lambda x, k: lax.top_k(jnp.asarray(x), k)[0] if not np.isnan(x.astype(np.float64)).any() else None
JAX["diff"] = lambda x, n=1, dim=-1: jnp.diff(jnp.asarray(x), n, dim) if n <= x.shape[dim] else None
JAX["searchsorted"] = lambda s, x, right=False: jnp.searchsorted(jnp.asarray(s), jnp.asarray(x), side="right" if right else "left") if s.size else None
JAX["quantile"] = lambda x, q, dim=None, keepdim=False: jnp.quantile(jnp.asarray(x), jnp.clip(q, 0, 1), axis=dim if x.ndim else None, keepdims=keepdim)


@second("norm")
def norm(x, p=2, dim=None, keepdim=False):
    if dim is None or isinstance(dim, int):
        y = jnp.reshape(x, -1) if dim is None else jnp.asarray(x)
        v = jnp.linalg.norm(y, p, axis=0 if dim is None else dim, keepdims=keepdim and dim is not None)
        return v.reshape((1,) * x.ndim) if dim is None and keepdim else v
    return None


# ---- indices ----

JAX["gather"] = lambda x, dim, index: jnp.take_along_axis(jnp.asarray(x)[tuple(slice(None) if k == dim % x.ndim else slice(0, n) for k, n in enumerate(index.shape))],
                                                          jnp.asarray(index), axis=dim)
JAX["index_select"] = lambda x, dim, index: jnp.take(jnp.asarray(x), jnp.asarray(index), axis=dim)
JAX["embedding"] = lambda index, w: jnp.take(jnp.asarray(w), jnp.asarray(index), axis=0)
JAX["take"] = lambda x, index: jnp.take(jnp.ravel(x), jnp.asarray(index))


def places(x, dim, index):
    grid = list(jnp.meshgrid(*[jnp.arange(n) for n in index.shape], indexing="ij")) if index.ndim else []
    grid[dim] = jnp.asarray(index)
    return tuple(grid)


@second("scatter_add")
def scatter_add(x, dim, index, src):
    return jnp.asarray(x).at[places(x, dim, index)].add(jnp.asarray(src))


@second("scatter_reduce")
def scatter_reduce(x, dim, index, src, reduce, include_self=True):
    at = jnp.asarray(x).at[places(x, dim, index)] if include_self else None
    how = {"sum": "add", "prod": "multiply", "amax": "max", "amin": "min"}.get(reduce)
    return getattr(at, how)(jnp.asarray(src)) if at is not None and how else None


@second("index_add")
def index_add(x, dim, index, src, alpha=1):
    return jnp.moveaxis(jnp.moveaxis(jnp.asarray(x), dim, 0).at[jnp.asarray(index)].add(alpha * jnp.moveaxis(jnp.asarray(src), dim, 0)), 0, dim)


@second("index_put")
def index_put(x, indices, values, accumulate=False):
    at = tuple(slice(None) if i is None else jnp.asarray(i) for i in indices)
    return jnp.asarray(x).at[at].add(jnp.asarray(values)) if accumulate else None


# ---- products and linear algebra ----

JAX["matmul"] = lambda a, b: jnp.matmul(jnp.asarray(a), jnp.asarray(b))
JAX["linear"] = lambda x, w, bias=None: jnp.matmul(x, jnp.asarray(w).T) + (0 if bias is None else bias)
JAX["einsum"] = lambda equation, *operands: jnp.einsum(equation, *map(jnp.asarray, operands))
JAX["tensordot"] = lambda a, b, dims=2: jnp.tensordot(a, b, dims)
JAX["kron"] = lambda a, b: jnp.kron(a, b) if np.ndim(a) == np.ndim(b) else None
JAX["det"], JAX["inv"], JAX["pinv"], JAX["solve"] = map(lambda f: lambda *a: f(*map(jnp.asarray, a)), (jnp.linalg.det, jnp.linalg.inv, jnp.linalg.pinv, jnp.linalg.solve))
JAX["slogdet"] = lambda x: tuple(jnp.linalg.slogdet(jnp.asarray(x)))
JAX["solve_triangular"] = lambda a, b, upper, unitriangular: jax.scipy.linalg.solve_triangular(a, b, lower=not upper, unit_diagonal=unitriangular) if a.ndim == 2 else None
JAX["matrix_power"] = lambda x, n: jnp.linalg.matrix_power(jnp.asarray(x), n)


# ---- convolutions and windows ----

def each(v, nd):
    return [v] * nd if isinstance(v, int) else list(v)


def convolve(nd, x, w, bias=None, stride=1, padding=0, dilation=1, groups=1):
    batched = x.ndim == nd + 2
    x = jnp.asarray(x if batched else x[None])
    if 0 in x.shape:
        return None
    pads = padding.upper() if isinstance(padding, str) else [(p, p) for p in each(padding, nd)]
    y = lax.conv_general_dilated(x, jnp.asarray(w), each(stride, nd), pads, rhs_dilation=each(dilation, nd), feature_group_count=groups)
    y = y if bias is None else y + jnp.reshape(bias, (-1,) + (1,) * nd)
    return y if batched else y[0]


def convolve_back(nd, x, w, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    batched = x.ndim == nd + 2
    x = jnp.asarray(x if batched else x[None])
    if 0 in x.shape:
        return None
    span = [d * (k - 1) for k, d in zip(w.shape[2:], each(dilation, nd))]
    pads = [(s - p, s - p + o) for s, p, o in zip(span, each(padding, nd), each(output_padding, nd))]
    kernel = jnp.concatenate([jnp.swapaxes(part, 0, 1) for part in jnp.split(jnp.flip(jnp.asarray(w), range(2, nd + 2)), groups, 0)], 0)
    y = lax.conv_general_dilated(x, kernel, [1] * nd, pads, lhs_dilation=each(stride, nd), rhs_dilation=each(dilation, nd), feature_group_count=groups)
    y = y if bias is None else y + jnp.reshape(bias, (-1,) + (1,) * nd)
    return y if batched else y[0]


def max_pool(nd, x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    if ceil_mode or x.dtype.kind != "f" or 0 in x.shape or np.isnan(x).any():
        return None
    lead = [1] * (x.ndim - nd)
    pads = [(0, 0)] * len(lead) + [(p, p) for p in each(padding, nd)]
    return lax.reduce_window(jnp.asarray(x), -jnp.inf, lax.max, lead + each(kernel_size, nd), lead + each(stride or kernel_size, nd), pads,
                             window_dilation=lead + each(dilation, nd))


def avg_pool(nd, x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    if ceil_mode or 0 in x.shape:
        return None
    lead = [1] * (x.ndim - nd)
    pads = [(0, 0)] * len(lead) + [(p, p) for p in each(padding, nd)]

    def sums(v):
        return lax.reduce_window(v, 0.0, lax.add, lead + each(kernel_size, nd), lead + each(stride or kernel_size, nd), pads)
    return sums(jnp.asarray(x)) / (math.prod(each(kernel_size, nd)) if count_include_pad else sums(jnp.ones(x.shape)))


for _nd in (1, 2, 3):
    for _name, _f in (("conv{}d", convolve), ("conv_transpose{}d", convolve_back), ("max_pool{}d", max_pool), ("avg_pool{}d", avg_pool)):
        JAX[_name.format(_nd)] = lambda x, *a, nd=_nd, f=_f, **kw: f(nd, x, *a, **kw)


@second("interpolate")
def interpolate(x, size=None, scale_factor=None, mode="nearest", align_corners=None):
    if mode not in ("linear", "bilinear", "trilinear") or align_corners:
        return None
    if isinstance(scale_factor, (tuple, list)):
        return None
    out = size or [math.floor(n * scale_factor) for n in x.shape[2:]]
    if not size and any(n * scale_factor != o for n, o in zip(x.shape[2:], out)):
        return None
    return jax.image.resize(jnp.asarray(x), (*x.shape[:2], *out), "linear", antialias=False)


# ---- networks ----

@second("layer_norm")
def layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    y = jax.nn.standardize(jnp.asarray(x), tuple(range(x.ndim - len(normalized_shape), x.ndim)), epsilon=eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


@second("scaled_dot_product_attention")
def attention(q, k, v, attn_mask=None, is_causal=False, scale=None, softcap=0.0, window_left=-1, window_right=-1, alibi_slopes=None, sinks=None):
    tq, tk = q.shape[-2], k.shape[-2]
    if q.ndim != 4 or softcap or window_left != -1 or window_right != -1 or alibi_slopes is not None or sinks is not None or v.shape[-1] != q.shape[-1]:
        return None
    live = np.tril(np.ones((tq, tk), bool), tk - tq)[None, None] if is_causal else np.ones((1, 1, tq, tk), bool)
    bias = None
    if attn_mask is not None:
        mask = attn_mask.reshape((1,) * (4 - attn_mask.ndim) + attn_mask.shape)
        live, bias = (live & mask, None) if mask.dtype == bool else (live, jnp.asarray(np.broadcast_to(mask, (*mask.shape[:2], tq, tk))))
    if not live.any(-1).all():
        return None  # a row without keys is NaN there
    if k.shape[1] != q.shape[1]:
        return None
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)  # jax.nn's own is f32 inside
    scores = jnp.where(live, scores if bias is None else scores + bias, -jnp.inf)
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, -1), v)


@second("cross_entropy")
def cross_entropy(x, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    if target.dtype.kind == "f" or x.ndim < 2:
        return None
    live, w = jnp.asarray(target != ignore_index), jnp.ones(x.shape[1], x.dtype) if weight is None else jnp.asarray(weight)
    picked = jax.nn.one_hot(jnp.where(live, target, 0), x.shape[1], axis=1, dtype=x.dtype) * w.reshape(-1, *[1] * (x.ndim - 2))
    given = (1 - label_smoothing) * picked + label_smoothing / x.shape[1] * jnp.broadcast_to(w.reshape(-1, *[1] * (x.ndim - 2)), x.shape)
    loss = jnp.where(live, -jnp.sum(given * jax.nn.log_softmax(jnp.asarray(x), 1), 1), 0)
    return loss if reduction == "none" else jnp.sum(loss) / (jnp.sum(jnp.where(live, jnp.sum(picked, 1), 0)) if reduction == "mean" else 1)


JAX["binary_cross_entropy_with_logits"] = lambda x, t, weight=None, pos_weight=None, reduction="mean": None if weight is not None or pos_weight is not None else {
    "mean": jnp.mean, "sum": jnp.sum, "none": lambda v: v}[reduction](-t * jax.nn.log_sigmoid(jnp.asarray(x)) - (1 - t) * jax.nn.log_sigmoid(-jnp.asarray(x)))
