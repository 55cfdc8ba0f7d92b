"""References of the section convolution; harness.py says how to add one."""
import itertools
import math

import numpy as np

from harness import FLOATS, NUMBERS, reference


def each(v, nd):
    return [v] * nd if isinstance(v, int) else list(v)


def padded(x, before, after, value=0.0):
    return np.pad(x, [(0, 0)] * (x.ndim - len(before)) + list(zip(before, after)), constant_values=value)


def windows(x, nd, size, stride, dilation, count=None):
    """[.., positions, elements]: copies, by the definition."""
    lead, n = x.shape[:x.ndim - nd], x.shape[x.ndim - nd:]
    spans = [d * (k - 1) + 1 for k, d in zip(size, dilation)]
    count = count or [(e - s) // t + 1 for e, s, t in zip(n, spans, stride)]
    out = np.zeros((*lead, *count, *size), x.dtype)
    for at in itertools.product(*(range(k) for k in size)):
        source = tuple(slice(a * d, a * d + (c - 1) * t + 1, t) for a, d, c, t in zip(at, dilation, count, stride))
        out[(...,) + (slice(None),) * nd + at] = x[(...,) + source]
    return out


def batched(f):
    """f takes a batch; an operand without one gets it."""
    def run(nd, x, *args, **kw):
        return f(nd, x, *args, **kw) if x.ndim == nd + 2 else f(nd, x[None], *args, **kw)[0]
    return run




@batched
def convolve(nd, x, w, bias=None, stride=1, padding=0, dilation=1, groups=1):
    stride, dilation = each(stride, nd), each(dilation, nd)
    if padding == "same":
        total = [d * (k - 1) for k, d in zip(w.shape[2:], dilation)]
        low = [t // 2 for t in total]
        high = [t - b for t, b in zip(total, low)]
    else:
        low = high = [0] * nd if padding == "valid" else each(padding, nd)
    v = windows(padded(x, low, high), nd, w.shape[2:], stride, dilation)
    letters = "uvw"[:nd] + "xyz"[:nd]
    parts = [np.einsum(f"bc{letters},oc{letters[nd:]}->bo{letters[:nd]}", a, b)
             for a, b in zip(np.split(v, groups, 1), np.split(w, groups, 0))]
    y = np.concatenate(parts, 1)
    return y if bias is None else y + bias.reshape(-1, *[1] * nd)


@batched
def convolve_back(nd, x, w, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    stride, dilation, padding, more = each(stride, nd), each(dilation, nd), each(padding, nd), each(output_padding, nd)
    n = [(e - 1) * s + d * (k - 1) + 1 + m for e, s, d, k, m in zip(x.shape[2:], stride, dilation, w.shape[2:], more)]
    out = []
    for a, b in zip(np.split(x, groups, 1), np.split(w, groups, 0)):
        y = np.zeros((x.shape[0], w.shape[1], *n))
        for at in itertools.product(*(range(k) for k in w.shape[2:])):
            to = tuple(slice(k * d, k * d + (e - 1) * s + 1, s) for k, d, e, s in zip(at, dilation, x.shape[2:], stride))
            y[(...,) + to] += np.einsum("bc...,co->bo...", a, b[(...,) + at])
        out.append(y)
    y = np.concatenate(out, 1)[(...,) + tuple(slice(p, e - p) for p, e in zip(padding, n))]
    return y if bias is None else y + bias.reshape(-1, *[1] * nd)


def draw_conv(nd, back=False):
    def draw(d):
        groups = d.choice((1, 1, 2, 3))
        cg, og = d.int(1, 3), d.int(1, 3)
        if d.bool():
            cg = 1
        size = [d.int(1, 3) for _ in range(nd)]
        dilation = [d.int(1, 2) for _ in range(nd)]
        stride = [d.int(1, 3) for _ in range(nd)]
        span = [a * (k - 1) + 1 for a, k in zip(dilation, size)]
        pad = [d.int(0, s // 2) for s in span]
        n = [d.int(1, 4) if back else d.int(s, s + 4) for s in span]
        lead = () if d.int(0, 3) == 0 else (d.int(0, 2) if d.int(0, 9) == 0 else d.int(1, 2),)
        x = d.tensor((*lead, groups * cg, *n))
        w = d.tensor((groups * cg, og, *size) if back else (groups * og, cg, *size))
        kw = {"stride": tuple(stride), "padding": tuple(pad), "dilation": tuple(dilation), "groups": groups}
        if d.bool():
            kw["bias"] = d.tensor((groups * og,))
        if back:
            kw["output_padding"] = tuple(d.int(0, max(s, a) - 1) for s, a in zip(stride, dilation))
            if any((e - 1) * s - 2 * p + q + m < 1 for e, s, p, q, m in zip(n, stride, pad, span, kw["output_padding"])):
                d.reject()
        elif d.int(0, 4) == 0:
            kw.update(padding=d.choice(("same", "valid")), stride=1)
        if d.int(0, 4) == 0 and not isinstance(kw["padding"], str):
            kw = {k: v for k, v in kw.items() if k in ("groups", "bias")}
        return x, w, kw
    return draw


def folded(x, w, bias=None, **kw):
    return w.size + 8


for _nd in (1, 2, 3):
    reference(f"conv{_nd}d", draw=draw_conv(_nd), values="moderate", n=folded, result="promote")(
        lambda x, w, nd=_nd, **kw: convolve(nd, x, w, **kw))
    reference(f"conv_transpose{_nd}d", draw=draw_conv(_nd, True), values="moderate", n=folded, result="promote")(
        lambda x, w, nd=_nd, **kw: convolve_back(nd, x, w, **kw))


def draw_causal(d):
    B, C, T, K = d.int(1, 3), d.int(1, 4), d.int(1, 7), d.int(1, 4)
    x, w = d.tensor((B, C, T)), d.tensor((C, K))
    kw = {"activation": d.choice(("none", "silu"))}
    if d.bool():
        kw["bias"] = d.tensor((C,))
    if d.bool():
        kw["state"] = d.tensor((B, C, K - 1))
    return x, w, kw


def causal_sum(x, w, bias=None, state=None, **kw):
    before = np.zeros((*x.shape[:2], w.shape[1] - 1)) if state is None else state
    whole = np.concatenate([before, x], 2)
    y = sum(w[:, k, None] * whole[:, :, k:k + x.shape[2]] for k in range(w.shape[1]))
    return y if bias is None else y + bias[:, None]




@reference("causal_conv1d", draw=draw_causal, values="moderate", n=folded)
def causal_conv1d(x, w, bias=None, state=None, activation="none"):
    y = causal_sum(x, w, bias, state)
    return y / (1 + np.exp(-y)) if activation == "silu" else y


# ---- windows ----

def draw_window(d):
    size, dilation, stride = ([d.int(1, 3) for _ in range(2)], [d.int(1, 2) for _ in range(2)], [d.int(1, 3) for _ in range(2)])
    pad = [d.int(0, 2) for _ in range(2)]
    n = [d.int(max(1, a * (k - 1) + 1 - 2 * p), 6) for a, k, p in zip(dilation, size, pad)]
    return n, {"kernel_size": tuple(size), "dilation": tuple(dilation), "padding": tuple(pad), "stride": tuple(stride)}


def draw_im2col(d):
    n, kw = draw_window(d)
    lead = (d.int(1, 2),) if d.bool() else ()
    return d.tensor((*lead, d.int(1, 3), *n)), kw


@reference("im2col", draw=draw_im2col, dtypes=NUMBERS, result="same")
def im2col(x, kernel_size, dilation, padding, stride):
    v = windows(padded(x, padding, padding), 2, kernel_size, stride, dilation)
    v = np.moveaxis(v, (-2, -1), (-4, -3))
    return v.reshape(*v.shape[:-5], v.shape[-5] * math.prod(kernel_size), -1)


def draw_fold(d):
    n, kw = draw_window(d)
    count = [(e + 2 * p - a * (k - 1) - 1) // s + 1 for e, p, a, k, s in zip(n, kw["padding"], kw["dilation"], kw["kernel_size"], kw["stride"])]
    lead = (d.int(1, 2),) if d.bool() else ()
    return d.tensor((*lead, d.int(1, 3) * math.prod(kw["kernel_size"]), math.prod(count))), {"output_size": tuple(n), **kw}


@reference("fold", draw=draw_fold, values="moderate", n=lambda x, kernel_size, **kw: math.prod(kernel_size),
           tolerance=lambda e: (e["n"] + 2) * e["eps"] * e["fold"](e["abs"](e["a"])))
def fold(x, output_size, kernel_size, dilation, padding, stride):
    count = [(e + 2 * p - a * (k - 1) - 1) // s + 1 for e, p, a, k, s in zip(output_size, padding, dilation, kernel_size, stride)]
    cols = x.reshape(*x.shape[:-2], -1, *kernel_size, *count)
    y = np.zeros((*cols.shape[:-4], *(e + 2 * p for e, p in zip(output_size, padding))))
    for i, j in itertools.product(*(range(k) for k in kernel_size)):
        rows = slice(i * dilation[0], i * dilation[0] + (count[0] - 1) * stride[0] + 1, stride[0])
        across = slice(j * dilation[1], j * dilation[1] + (count[1] - 1) * stride[1] + 1, stride[1])
        y[..., rows, across] += cols[..., i, j, :, :]
    return y[..., padding[0]:padding[0] + output_size[0], padding[1]:padding[1] + output_size[1]]


# ---- pooling ----

def draw_pool(nd, is_max):
    def draw(d):
        size = [d.int(1, 3) for _ in range(nd)]
        dilation = [d.int(1, 2) if is_max else 1 for _ in range(nd)]
        pad = [d.int(0, k // 2) for k in size]
        n = [d.int(max(a, a * (k - 1) + 1 - 2 * p), 7) for a, k, p in zip(dilation, size, pad)]  # no window lies in padding alone
        lead = (d.int(1, 2),) if d.bool() else ()
        kw = {"kernel_size": tuple(size), "padding": tuple(pad), "ceil_mode": d.bool()}
        if d.bool():
            kw["stride"] = tuple(d.int(1, 3) for _ in range(nd))
        if is_max:
            kw["dilation"] = tuple(dilation)
        else:
            kw["count_include_pad"] = d.bool()
        return d.tensor((*lead, d.int(1, 3), *n)), kw
    return draw


def pool_windows(nd, x, value, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    size, stride, pad, dilation = each(kernel_size, nd), each(stride or kernel_size, nd), each(padding, nd), each(dilation, nd)
    count, high = [], []
    for n, k, s, p, a in zip(x.shape[x.ndim - nd:], size, stride, pad, dilation):
        span = a * (k - 1) + 1
        c = (-(-(n + 2 * p - span) // s) if ceil_mode else (n + 2 * p - span) // s) + 1
        if ceil_mode and (c - 1) * s >= n + p:
            c -= 1
        count.append(c)
        high.append(max(p, (c - 1) * s + span - n - p))
    return windows(padded(x, pad, high, value), nd, size, stride, dilation, count), tuple(range(-nd, 0)), pad, high


def max_pool(nd, x, **kw):
    least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    v, axes, _, _ = pool_windows(nd, x, least, **kw)
    return v.max(axes)


def avg_pool(nd, x, count_include_pad=True, **kw):
    v, axes, pad, high = pool_windows(nd, x, 0.0, **kw)
    n = x.shape[x.ndim - nd:]
    inside = padded(np.ones(n), pad, pad if count_include_pad else [0] * nd, 1.0 if count_include_pad else 0.0)
    inside = padded(inside, [0] * nd, [max(0, h - (p if count_include_pad else 0)) for h, p in zip(high, pad)])
    grid = windows(inside, nd, each(kw["kernel_size"], nd), each(kw.get("stride") or kw["kernel_size"], nd), [1] * nd, list(v.shape[v.ndim - 2 * nd:v.ndim - nd]))
    return v.sum(axes) / grid.sum(axes)


def window_size(x, kernel_size, **kw):
    return math.prod(kernel_size)


for _nd in (1, 2, 3):
    reference(f"max_pool{_nd}d", draw=draw_pool(_nd, True), dtypes=NUMBERS, result="same")(lambda x, nd=_nd, **kw: max_pool(nd, x, **kw))
    reference(f"avg_pool{_nd}d", draw=draw_pool(_nd, False), values="moderate", n=window_size,
              tolerance=lambda e: (e["n"] + 4) * e["eps"] * e["avg"](e["abs"](e["a"])))(lambda x, nd=_nd, **kw: avg_pool(nd, x, **kw))


def draw_adaptive(nd):
    def draw(d):
        lead = (d.int(1, 2),) if d.bool() else ()
        n = [d.int(1, 7) for _ in range(nd)]
        return d.tensor((*lead, d.int(1, 3), *n)), {"output_size": tuple(d.choice((1, 2, 3, 5, 9, -1)) for _ in range(nd))}
    return draw


def adaptive(nd, x, f, output_size):
    for axis, out in zip(range(x.ndim - nd, x.ndim), output_size):
        n = x.shape[axis]
        out = n if out == -1 else out
        parts = [f(np.take(x, range(i * n // out, -(-(i + 1) * n // out)), axis), axis) for i in range(out)]
        x = np.stack(parts, axis)
    return x


for _nd in (1, 2, 3):
    reference(f"adaptive_max_pool{_nd}d", draw=draw_adaptive(_nd), dtypes=NUMBERS, result="same")(
        lambda x, output_size, nd=_nd: adaptive(nd, x, np.max, output_size))
    reference(f"adaptive_avg_pool{_nd}d", draw=draw_adaptive(_nd), values="moderate", n=lambda x, output_size: x.size,
              tolerance=lambda e: (e["n"] + 4) * e["eps"] * e["avg"](e["abs"](e["a"])))(
        lambda x, output_size, nd=_nd: adaptive(nd, x, np.mean, output_size))


# ---- resampling ----

MODES = {1: ("nearest", "nearest-exact", "linear", "area"), 2: ("nearest", "nearest-exact", "bilinear", "bicubic", "area"), 3: ("nearest", "nearest-exact", "trilinear", "area")}


def draw_interpolate(d):
    nd = d.int(1, 3)
    mode = d.choice(MODES[nd])
    n = [d.int(1, 5) for _ in range(nd)]
    kw = {"mode": mode}
    if d.bool():
        kw["size"] = tuple(d.int(1, 8) for _ in range(nd))
    else:
        scales = [d.choice((1.0, 2.0, 3.0, 0.5, 1.5)) for _ in range(nd if d.bool() else 1)]
        kw["scale_factor"] = tuple(scales) if len(scales) > 1 else scales[0]
        if any(e * s < 1 for e, s in zip(n, scales * nd)):
            d.reject()
    if "nearest" not in mode and mode != "area" and d.bool():
        kw["align_corners"] = d.bool()
    return d.tensor((d.int(1, 2), d.int(1, 2), *n)), kw


def kernel(mode, distance):
    d = np.abs(distance)
    if mode != "bicubic":
        return np.maximum(0, 1 - d)
    return np.where(d <= 1, 1.25 * d**3 - 2.25 * d**2 + 1, np.where(d < 2, -0.75 * (d**3 - 5 * d**2 + 8 * d - 4), 0))


def interpolate(x, size=None, scale_factor=None, mode="nearest", align_corners=None):
    nd = x.ndim - 2
    scales = scale_factor if isinstance(scale_factor, tuple) else (scale_factor,) * nd
    if mode == "area":
        return adaptive(nd, x, np.mean, size or tuple(math.floor(n * s) for n, s in zip(x.shape[2:], scales)))
    for i in range(nd):
        n = x.shape[2 + i]
        out = size[i] if size else math.floor(n * scales[i])
        ratio = n / out if size else 1 / scales[i]
        o = np.arange(out)
        if "nearest" in mode:
            ratio = np.float32(n) / np.float32(out) if size else np.float32(1 / scales[i])
            at = np.floor((o.astype(np.float32) + np.float32(0.5 if "exact" in mode else 0)) * ratio).astype(int)
            x = np.take(x, np.minimum(at, n - 1), 2 + i)
            continue
        s = o * ((n - 1) / (out - 1) if out > 1 else 0) if align_corners else (o + 0.5) * ratio - 0.5
        s = s if mode == "bicubic" else np.maximum(s, 0)
        weights = np.zeros((out, n))
        for k in range(-2, 4):
            at = np.floor(s).astype(int) + k
            np.add.at(weights, (o, np.clip(at, 0, n - 1)), kernel(mode, s - at))
        x = np.moveaxis(np.tensordot(x, weights, (2 + i, 1)), -1, 2 + i)
    return x


reference("interpolate", "upsample", draw=draw_interpolate, values="moderate", dtypes=FLOATS)(interpolate)
