#!/usr/bin/env python3
"""Writes networks_cases.h: cases of the networks section with reference values from NumPy in f64.

    python3 tests/networks_cases.py > tests/networks_cases.h

Values are multiples of 1/64 below 4, exact in f16, so that one case serves every float dtype.
"""
import math
import numpy as np

rng = np.random.default_rng(4)
cases = []
F, I, B = np.float64, np.int32, np.bool_


def val(*shape, low=-4.0, high=4.0):
    return rng.integers(int(low * 64), int(high * 64) + 1, shape).astype(F) / 64


def add(op, inputs, attrs, *outputs, inexact=False):
    cases.append((op, inputs, attrs, [np.asarray(o) for o in outputs], inexact))


def fold(x, r):
    return x.mean() if r == "mean" else x.sum() if r == "sum" else x


def norm(x, axes, eps, centred=True):
    m = x.mean(axes, keepdims=True) if centred else 0
    return (x - m) / np.sqrt(((x - m) ** 2).mean(axes, keepdims=True) + eps)


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


# ---- norms ----
x, w, b = val(2, 3, 4, 5), val(4, 5), val(4, 5)
add("layer_norm", [x], dict(normalized_shape=[5]), norm(x, -1, 1e-5))
add("layer_norm", [x, w, b], dict(normalized_shape=[4, 5], eps=1e-3), norm(x, (2, 3), 1e-3) * w + b)
add("layer_norm", [x, None, b], dict(normalized_shape=[4, 5]), norm(x, (2, 3), 1e-5) + b)
add("layer_norm", [x], dict(normalized_shape=[2, 3, 4, 5]), norm(x, (0, 1, 2, 3), 1e-5))
add("rms_norm", [x, w], dict(normalized_shape=[4, 5], eps=0.125), norm(x, (2, 3), 0.125, False) * w)
add("rms_norm", [x], dict(normalized_shape=[5], eps=2.0**-23), norm(x, -1, 2.0**-23, False))
x, w, b = val(3, 6, 2, 2), val(6), val(6)
cw, cb = w[:, None, None], b[:, None, None]
for g in (1, 2, 3, 6):
    add("group_norm", [x, w, b], dict(num_groups=g), norm(x.reshape(3, g, -1), 2, 1e-5).reshape(x.shape) * cw + cb)
add("group_norm", [x[:, :, 0, 0]], dict(num_groups=2), norm(x[:, :, 0, 0].reshape(3, 2, 3), 2, 1e-5).reshape(3, 6))
rm, rv = val(6), val(6, low=0.25)
add("batch_norm", [x, rm, rv, w, b], {}, (x - rm[:, None, None]) / np.sqrt(rv[:, None, None] + 1e-5) * cw + cb)
mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3), ddof=1)
add("batch_norm", [x, rm, rv, w, b], dict(training=True), norm(x, (0, 2, 3), 1e-5) * cw + cb, 0.9 * rm + 0.1 * mean, 0.9 * rv + 0.1 * var)
add("batch_norm", [x, None, None], dict(training=True, eps=0.5), norm(x, (0, 2, 3), 0.5))
x2 = x[:, :, 0, 0]
add("batch_norm", [x2, rm, rv], dict(training=True, momentum=0.5), norm(x2, 0, 1e-5), 0.5 * rm + 0.5 * x2.mean(0), 0.5 * rv + 0.5 * x2.var(0, ddof=1))
add("instance_norm", [x, None, None, w, b], {}, norm(x, (2, 3), 1e-5) * cw + cb)
im, iv = x.mean((2, 3)).mean(0), x.var((2, 3), ddof=1).mean(0)
add("instance_norm", [x, rm, rv], {}, norm(x, (2, 3), 1e-5), 0.9 * rm + 0.1 * im, 0.9 * rv + 0.1 * iv)
add("instance_norm", [x, rm, rv], dict(use_input_stats=False), (x - rm[:, None, None]) / np.sqrt(rv[:, None, None] + 1e-5))
for size in (1, 2, 5, 20):
    d = np.zeros_like(x)
    for i in range(6):
        d[:, i] = (x[:, max(0, i - size // 2) : i + (size - 1) // 2 + 1] ** 2).sum(1) / size
    add("local_response_norm", [x], dict(size=size, alpha=0.5, k=2.0), x / (2 + 0.5 * d) ** 0.75)
x, s, t = val(2, 3, 8), val(2, 1, 8), val(8)
add("adaln", [x, s, t], {}, (1 + s) * norm(x, -1, 1e-5) + t)
v, g = val(4, 3, 2), val(4)
add("weight_norm", [v, g], {}, g[:, None, None] * v / np.sqrt((v**2).sum((1, 2), keepdims=True)))
g = val(1, 3, 1)
add("weight_norm", [v, g], dict(dim=-2), g * v / np.sqrt((v**2).sum((0, 2), keepdims=True)))
add("softmin", [x], dict(dim=1), softmax(-x, 1))

# ---- embeddings and positions ----
table, ids = val(7, 5), rng.integers(0, 7, (3, 4)).astype(I)
for mode, f in (("mean", np.mean), ("sum", np.sum), ("max", np.max)):
    add("embedding_bag", [ids, table], dict(mode=mode), f(table[ids], 1))
    flat, off = ids.reshape(-1), np.array([0, 5, 5, 9], I)
    bags = [flat[0:5], flat[5:5], flat[5:9], flat[9:]]
    add("embedding_bag", [flat, table, off], dict(mode=mode), np.stack([f(table[k], 0) if len(k) else np.zeros(5) for k in bags]))
    off = np.array([0, 5, 5, 9, 11], I)
    bags[3] = flat[9:11]
    add("embedding_bag", [flat, table, off], dict(mode=mode, include_last_offset=True),
        np.stack([f(table[k], 0) if len(k) else np.zeros(5) for k in bags]))
    pad = int(ids[0, 0])
    keep = [r[r != pad] for r in ids]
    add("embedding_bag", [ids, table], dict(mode=mode, padding_idx=pad), np.stack([f(table[k], 0) if len(k) else np.zeros(5) for k in keep]))
ws = val(3, 4)
add("embedding_bag", [ids, table, None, ws], dict(mode="sum"), (table[ids] * ws[..., None]).sum(1))
pos = np.array([[0, 1, 17], [1023, 65535, 1048575]], I)
ang = pos[..., None] * 10000.0 ** (-np.arange(0, 6, 2) / 6)
add("sinusoidal_embedding", [pos], dict(dim=6), np.stack([np.sin(ang), np.cos(ang)], -1).reshape(2, 3, 6), inexact=True)
add("sinusoidal_embedding", [pos], dict(dim=6, interleaved=False), np.concatenate([np.sin(ang), np.cos(ang)], -1), inexact=True)
rel = np.array([[-1000, -129, -128, -127, -64, -33, -32, -31, -17, -16, -15, -9, -8, -7, -1, 0], [1000, 129, 128, 127, 91, 90, 46, 45, 32, 31, 23, 22, 16, 15, 8, 7]], I)


def bucket(rel, bidirectional, buckets, most):
    out = np.zeros(rel.shape, I)
    for i, r in np.ndenumerate(rel):
        base, n, nb = 0, max(-int(r), 0), buckets
        if bidirectional:
            nb //= 2
            base, n = nb * (r > 0), abs(int(r))
        exact = nb // 2
        k = n if n < exact else min(nb - 1, exact + math.floor(math.log(n / exact) / math.log(most / exact) * (nb - exact) + 1e-9))
        out[i] = base + k
    return out


for bi, nb, most in ((True, 32, 128), (False, 32, 128), (True, 8, 20), (False, 5, 64)):
    add("relative_position_bucket", [rel], dict(bidirectional=bi, num_buckets=nb, max_distance=most), bucket(rel, bi, nb, most))
bias = val(32, 3)
q, k = np.arange(4)[:, None] + 2, np.arange(6)[None]
add("relative_position_bias", [bias], dict(query_length=4, key_length=6, query_offset=2), bias[bucket((k - q).astype(I), True, 32, 128)].transpose(2, 0, 1))
for n in (1, 4, 6, 8, 12):
    p = 2 ** int(math.log2(n))
    s = [2 ** (-8 * (i + 1) / p) for i in range(p)] + [2 ** (-8 * (i + 1) / (2 * p)) for i in range(2 * p)][0::2][: n - p]
    add("alibi_slopes", [], dict(n_heads=n), s, inexact=True)


def rotate(x, ang, interleaved):
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else np.split(x, 2, -1)
    y = np.stack([a * np.cos(ang) - b * np.sin(ang), b * np.cos(ang) + a * np.sin(ang)], -1)
    return y.reshape(x.shape) if interleaved else np.moveaxis(y, -1, -2).reshape(x.shape)


x = val(2, 2, 12, 12)
t, h, w = (c.reshape(-1) for c in np.meshgrid(np.arange(2), np.arange(3), np.arange(2), indexing="ij"))
for inter in (False, True):
    fr = 10000.0 ** (-np.arange(2) / 2)
    y = np.concatenate([rotate(x[..., 4 * i : 4 * i + 4], c[:, None] * fr, inter) for i, c in enumerate((t, h, w))], -1)
    add("rope_3d", [x], dict(gt=2, gh=3, gw=2, interleaved=inter), y)
    sections, pos = [1, 2, 2], np.stack([np.arange(12), np.arange(12)[::-1], rng.integers(0, 1000, 12)]).astype(I)
    fr, which = 100.0 ** (-np.arange(5) / 5), np.repeat(np.arange(3), sections)
    y = np.concatenate([rotate(x[..., :10], (pos[which] * fr[:, None]).T, inter), x[..., 10:]], -1)
    add("rope_sections", [x, pos], dict(sections=sections, base=100.0, interleaved=inter), y, inexact=True)

# ---- losses ----
for shape in ((5,), (4, 5), (2, 5, 3), (2, 5, 2, 3)):
    x = val(*shape)
    axis = 0 if len(shape) == 1 else 1
    C, rest = 5, shape[:axis] + shape[axis + 1 :]
    target = rng.integers(0, C, rest).astype(I)
    if rest:
        target.reshape(-1)[1] = -100
    w = val(C, low=0.25)
    lp = np.log(softmax(x, axis))
    live = target != -100
    safe = np.where(live, target, 0)

    def pick(a):
        return np.take_along_axis(a, np.expand_dims(safe, axis), axis).squeeze(axis)

    for weight in (None, w):
        wt = np.where(live, 1.0 if weight is None else weight[safe], 0.0)
        wb = np.ones(C) if weight is None else weight
        wb = wb.reshape((C,) + (1,) * (len(shape) - axis - 1))
        for smooth in (0.0, 0.25) if len(shape) in (2, 4) else (0.25,) if weight is None else (0.0,):
            nll, all_c = -pick(lp) * wt, np.where(live, -(lp * wb).sum(axis), 0)
            loss = (1 - smooth) * nll + smooth / C * all_c
            for r in ("mean", "sum", "none"):
                out = loss.sum() / wt.sum() if r == "mean" else fold(loss, r)
                add("cross_entropy", [x, target, weight], dict(reduction=r, label_smoothing=smooth), out)
                if smooth == 0:
                    n = -pick(x) * wt
                    add("nll_loss", [x, target, weight], dict(reduction=r), n.sum() / wt.sum() if r == "mean" else fold(n, r))
            p = softmax(val(*shape), axis)
            p = np.round(p * 64) / 64
            soft = -(lp * ((1 - smooth) * p + smooth / C) * wb).sum(axis)
            for r in ("mean", "sum", "none"):
                out = soft.sum() / max(soft.size, 1) if r == "mean" else fold(soft, r)
                add("cross_entropy", [x, p, weight], dict(reduction=r, label_smoothing=smooth), out)
add("cross_entropy", [val(3, 4), np.array([2, 2, 2], I)], dict(ignore_index=2), np.array(np.nan))

a, b, w, y = val(3, 4), val(3, 4), val(3, 4, low=0.25), rng.choice([-1.0, 1.0], (3, 4))
d = np.abs(a - b)
prob, soft = val(3, 4, low=0.0, high=1.0), val(3, 4, low=0.0, high=1.0)
prob[0, 0], soft[0, 0], prob[0, 1], soft[0, 1], soft[1, 0] = 0, 1, 1, 1, 0
far = a * 16
sp = lambda v: np.logaddexp(0, v)
with np.errstate(divide="ignore", invalid="ignore"):
    bce = -(soft * np.maximum(np.log(prob), -100) + (1 - soft) * np.maximum(np.log1p(-prob), -100))
    ent = np.where(soft == 0, 0, soft * np.log(soft))
    stirling = lambda t: np.where(t > 1, t * np.log(t) - t + 0.5 * np.log(2 * np.pi * t), 0)
    st = stirling(np.abs(b))
pw = val(4, low=0.25)
dist = lambda u, v, p, eps=1e-6: ((np.abs(u - v + eps) ** p).sum(-1)) ** (1 / p)
c = val(3, 4)
y1 = rng.choice([-1.0, 1.0], 3)
cos = (a * b).sum(-1) / np.sqrt(((a * a).sum(-1) + 1e-12) * ((b * b).sum(-1) + 1e-12))
v = val(3, 4, low=0.25)
elementwise = [
    ("mse_loss", [a, b], {}, d**2), ("l1_loss", [a, b], {}, d), ("mse_loss", [a, b[0]], {}, (a - b[0]) ** 2),
    ("smooth_l1_loss", [a, b], dict(beta=0.5), np.where(d < 0.5, d * d, d - 0.25)), ("smooth_l1_loss", [a, b], dict(beta=0.0), d),
    ("huber_loss", [a, b], dict(delta=2.0), np.where(d <= 2, 0.5 * d * d, 2 * (d - 1))),
    ("binary_cross_entropy", [prob, soft], {}, bce), ("binary_cross_entropy", [prob, soft, w], {}, bce * w),
    ("binary_cross_entropy_with_logits", [far, soft], {}, (1 - soft) * far + sp(-far)),
    ("binary_cross_entropy_with_logits", [far, soft, w, pw], {}, ((1 - soft) * far + (1 + (pw - 1) * soft) * sp(-far)) * w),
    ("kl_div", [a, soft], {}, ent - soft * a), ("kl_div", [a, b], dict(log_target=True), np.exp(b) * (b - a)),
    ("poisson_nll_loss", [a, b], {}, np.exp(a) - b * a), ("poisson_nll_loss", [v, np.abs(b)], dict(log_input=False, full=True), v - np.abs(b) * np.log(v + 1e-8) + st),
    ("gaussian_nll_loss", [a, b, v], {}, 0.5 * (np.log(v) + (a - b) ** 2 / v)),
    ("gaussian_nll_loss", [a, b, v[:, 0]], dict(full=True), 0.5 * (np.log(v[:, :1]) + (a - b) ** 2 / v[:, :1]) + 0.5 * np.log(2 * np.pi)),
    ("margin_ranking_loss", [a, b, y], dict(margin=0.5), np.maximum(0, -y * (a - b) + 0.5)),
    ("hinge_embedding_loss", [a, y], dict(margin=2.0), np.where(y == 1, a, np.maximum(0, 2 - a))),
    ("soft_margin_loss", [far, y], {}, sp(-y * far)),
    ("cosine_embedding_loss", [a, b, y1], dict(margin=0.25), np.where(y1 == 1, 1 - cos, np.maximum(0, cos - 0.25))),
    ("triplet_margin_loss", [a, b, c], dict(), np.maximum(0, dist(a, b, 2) - dist(a, c, 2) + 1)),
    ("triplet_margin_loss", [a, b, c], dict(swap=True, p=3.0, margin=2.0), np.maximum(0, dist(a, b, 3) - np.minimum(dist(a, c, 3), dist(b, c, 3)) + 2)),
]
for op, inputs, attrs, out in elementwise:
    for r in ("mean", "sum", "none"):
        add(op, inputs, dict(attrs, reduction=r), fold(out, r))
add("kl_div", [a, soft], dict(reduction="batchmean"), (ent - soft * a).sum() / 3)
add("mse_loss", [a, b, w], dict(reduction="mean"), (d * d * w).sum() / w.sum())
add("mse_loss", [np.zeros((0, 3)), np.zeros((0, 3))], {}, np.array(np.nan))
add("mse_loss", [np.array(2.0), np.array(0.5)], {}, np.array(2.25))

# ---- distances ----
u, v = val(2, 3, 4), val(2, 5, 4)
pn = lambda z, p: (z != 0).sum(-1) if p == 0 else np.abs(z).max(-1) if p == np.inf else (np.abs(z) ** p).sum(-1) ** (1 / p)
for p in (0.0, 1.0, 2.0, 3.5, np.inf):
    add("cdist", [u, v], dict(p=p), pn(u[:, :, None] - v[:, None], p))
    add("pairwise_distance", [u, v[:, :3]], dict(p=p, eps=0.0), pn(u - v[:, :3], p))
add("pairwise_distance", [u, v[:, :3]], dict(keepdim=True), pn(u - v[:, :3] + 1e-6, 2)[..., None])
add("cdist", [u[0], v], {}, pn(u[0][None, :, None] - v[:, None], 2))
W, bb = val(6, 4, 3), val(6)
x2 = val(2, 3, 3)
add("bilinear", [u, x2, W, bb], {}, np.einsum("bni,oij,bnj->bno", u, W, x2) + bb)

# ---- attention ----


def attend(q, k, v, scale=None, mask=None, causal=False, kv_len=None, left=-1, right=-1, cap=0.0, slopes=None, sinks=None):
    Bq, H, Tq, D = q.shape
    Tk, G = k.shape[2], H // k.shape[1]
    k, v = np.repeat(k, G, 1), np.repeat(v, G, 1)
    s = q @ k.swapaxes(2, 3) * (1 / math.sqrt(D) if scale is None else scale)
    if cap:
        s = cap * np.tanh(s / cap)
    L = Tk if kv_len is None else kv_len
    i, j = np.arange(Tq)[:, None] + L - Tq, np.arange(Tk)[None]
    if slopes is not None:
        s = s + slopes[:, None, None] * (j - i)
    keep = np.broadcast_to(j < L, s.shape)
    if causal:
        keep = keep & (j <= i)
    if left >= 0:
        keep = keep & (j >= i - left)
    if right >= 0:
        keep = keep & (j <= i + right)
    if mask is not None:
        if mask.dtype == bool:
            keep = keep & mask
        else:
            s = s + mask
    s = np.where(keep, s, -np.inf)
    m = s.max(-1, keepdims=True)
    if sinks is not None:
        m = np.maximum(m, sinks[:, None, None])
    m = np.where(np.isinf(m), 0, m)
    e = np.exp(s - m)
    den = e.sum(-1, keepdims=True) + (0 if sinks is None else np.exp(sinks[:, None, None] - m))
    return (e / np.where(den == 0, 1, den)) @ v


q, k, v = val(2, 4, 5, 8, low=-2, high=2), val(2, 2, 7, 8, low=-2, high=2), val(2, 2, 7, 8)
name = "scaled_dot_product_attention"
bm, fm, hm = rng.random((5, 7)) < 0.7, val(2, 1, 1, 7), val(4, 5, 7)
bm[2] = False
slopes, sinks = np.array([2.0**-k for k in (2, 4, 6, 8)]), val(4)
add(name, [q, k, v], {}, attend(q, k, v))
add(name, [q, k, v, bm], dict(enable_gqa=True), attend(q, k, v, mask=bm))
add(name, [q, k, v, fm], {}, attend(q, k, v, mask=fm))
add(name, [q, k, v, hm], dict(is_causal=True), attend(q, k, v, mask=hm, causal=True))
windows = [(2, 0), (0, 0), (1, 1), (-1, 1), (3, -1)]
for l, r in windows:
    add(name, [q, k, v], dict(window_left=l, window_right=r), attend(q, k, v, left=l, right=r))
    add(name, [q, k, v, bm], dict(window_left=l, window_right=r, is_causal=True, softcap=2.0), attend(q, k, v, mask=bm, left=l, right=r, causal=True, cap=2.0))
add(name, [q, k, v, hm], dict(window_left=2), attend(q, k, v, mask=hm, left=2))
add(name, [q, k, v, None, np.array(6, I)], dict(window_left=2, is_causal=True), attend(q, k, v, left=2, kv_len=6, causal=True))
add(name, [q, k, v, None, np.array(6, I)], dict(softcap=1.5), attend(q, k, v, kv_len=6, cap=1.5))
add(name, [q, k, v, None, None, slopes], dict(is_causal=True), attend(q, k, v, slopes=slopes, causal=True))
add(name, [q, k, v, bm, None, slopes], {}, attend(q, k, v, slopes=slopes, mask=bm))
add(name, [q, k, v, fm, None, slopes], dict(softcap=3.0), attend(q, k, v, slopes=slopes, mask=fm, cap=3.0))
add(name, [q, k, v, None, None, None, sinks], {}, attend(q, k, v, sinks=sinks))
add(name, [q, k, v, bm, None, slopes, sinks], dict(is_causal=True, window_left=3, scale=0.5), attend(q, k, v, scale=0.5, mask=bm, slopes=slopes, sinks=sinks, causal=True, left=3))
add(name, [q[:, 0], k[:, 0], v[:, 0]], dict(is_causal=True), attend(q[:, :1], k[:, :1], v[:, :1], causal=True)[:, 0])
add(name, [q[0, 0], k[0, 0], v[0, 0], bm], {}, attend(q[:1, :1], k[:1, :1], v[:1, :1], mask=bm)[0, 0])
add(name, [q[None], k[None], v[None], bm], {}, attend(q, k, v, mask=bm)[None])
add(name, [q[:, 0], k[:, 0], v[:, 0], hm[:2]], {}, attend(q[:, :1], k[:, :1], v[:, :1], mask=hm[:2, None])[:, 0])
add(name, [q, k, v[..., :3]], {}, attend(q, k, v[..., :3]))

# ---- writing ----
pool, places = [], {}


def literal(x):
    return "NAN" if math.isnan(x) else ("INFINITY" if x > 0 else "-INFINITY") if math.isinf(x) else repr(float(x)).removesuffix(".0")


def tensor(t):
    if t is None:
        return "{.absent = true}"
    flat = tuple(map(float, t.reshape(-1)))
    at = places.setdefault(flat, len(pool))
    if at == len(pool):
        pool.extend(flat)
    kind = "KIND_BOOL" if t.dtype == bool else "KIND_INT" if np.issubdtype(t.dtype, np.integer) else "KIND_FLOAT"
    shape = ", ".join(str(e) for e in t.shape)
    return "{.kind = %s, .rank = %d, .shape = {%s}, .at = %d}" % (kind, t.ndim, shape or "0", at)


def attr(n, v):
    if isinstance(v, bool):
        return '{.name = "%s", .kind = WEFT_ATTR_BOOL, .i = %d}' % (n, v)
    if isinstance(v, int):
        return '{.name = "%s", .kind = WEFT_ATTR_INT, .i = %d}' % (n, v)
    if isinstance(v, float):
        return '{.name = "%s", .kind = WEFT_ATTR_FLOAT, .f = %s}' % (n, literal(v))
    if isinstance(v, str):
        return '{.name = "%s", .kind = WEFT_ATTR_STRING, .s = "%s"}' % (n, v)
    return '{.name = "%s", .kind = WEFT_ATTR_INTS, .ints = (const int64_t[]){%s}, .n_ints = %d}' % (n, ", ".join(map(str, v)), len(v))


print("/* networks_cases.h - written by networks_cases.py; not edited. */")
lines = []
for op, inputs, attrs, outputs, inexact in cases:
    ins = ", ".join(tensor(t) for t in inputs) or "{.absent = true}"
    at = ", ".join(attr(n, v) for n, v in attrs.items()) or "{.name = NULL}"
    outs = ", ".join(tensor(t) for t in outputs)
    lines.append('    {"%s", %d, {%s},\n     %d, {%s},\n     %d, {%s}, %s},' % (op, len(inputs), ins, len(attrs), at, len(outputs), outs, "true" if inexact else "false"))
print("static const network_case network_cases[] = {\n" + "\n".join(lines) + "\n};")
print("static const double network_values[] = {")
for i in range(0, len(pool), 8):
    print("    " + ", ".join(literal(e) for e in pool[i : i + 8]) + ",")
print("};")
