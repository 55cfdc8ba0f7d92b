"""References of the section networks; harness.py says how to add one."""
import math

import numpy as np

from harness import FLOATS, Operand, reference

HALVES = ("float32", "float16", "bfloat16")


# ---- normalisation ----

def normalised(x, axes, eps):
    mean = np.mean(x, axes, keepdims=True)
    return (x - mean) / np.sqrt(np.mean((x - mean) ** 2, axes, keepdims=True) + eps)


def drawn_bound(e):
    """The row's bound, and what a row of equal values adds: its mean's rounding over sqrt(eps), eps at least 0.01 as drawn."""
    return (e["n"] + 24) * e["eps"] * (e["S"] + 32 * e["M"] + 16 * e["X"])


def channel(v, x):
    return v.reshape((-1,) + (1,) * (x.ndim - 2))


def affine(y, weight, bias):
    y = y if weight is None else y * channel(weight, y)
    return y if bias is None else y + channel(bias, y)


def channels_shape(d, low=1):
    return (d.int(low, 4), d.int(1, 4)) + d.shape(max_rank=3, low=1)


def vectors(d, n, count):
    return [d.tensor((n,)) if d.bool() else None for _ in range(count)]


def drawn_group(d):
    shape = channels_shape(d)
    groups = d.choice([g for g in (1, 2, 3, 4) if shape[1] % g == 0])
    return (d.tensor(shape), groups, *vectors(d, shape[1], 2), {"eps": d.float(0.01, 0.5)})


@reference("group_norm", draw=drawn_group, values="unit", n=lambda x, g, *a, **k: x[0].size // g, tolerance=drawn_bound, result="same")
def group_norm(x, groups, weight=None, bias=None, eps=1e-5):
    flat = x.reshape(x.shape[0], groups, x[0].size // groups)
    return affine(normalised(flat, 2, eps).reshape(x.shape), weight, bias)


def drawn_batch(d):
    shape = channels_shape(d, 2)
    training, running = d.bool(), True
    if training:
        running = d.bool()
    x = d.tensor(shape)
    stats = [d.tensor((shape[1],)), d.tensor((shape[1],), values="positive")] if running else [None, None]
    return (x, *stats, *vectors(d, shape[1], 2), {"training": training, "eps": d.float(0.01, 0.5), "momentum": d.float(0, 1)})


@reference("batch_norm", draw=drawn_batch, values="unit", n=lambda x, *a, **k: x.size // x.shape[1], tolerance=drawn_bound, result="same")
def batch_norm(x, mean=None, var=None, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    if not training:
        return affine((x - channel(mean, x)) / np.sqrt(channel(var, x) + eps), weight, bias)
    axes = (0,) + tuple(range(2, x.ndim))
    y = affine(normalised(x, axes, eps), weight, bias)
    if mean is None:
        return y
    return y, (1 - momentum) * mean + momentum * x.mean(axes), (1 - momentum) * var + momentum * x.var(axes, ddof=1)


def drawn_instance(d):
    shape = (d.int(1, 3), d.int(1, 4), d.int(2, 4)) + d.shape(max_rank=2, low=1)
    stats, running = d.bool(), True
    if stats:
        running = d.bool()
    x = d.tensor(shape)
    moments = [d.tensor((shape[1],)), d.tensor((shape[1],), values="positive")] if running else [None, None]
    return (x, *moments, *vectors(d, shape[1], 2), {"use_input_stats": stats, "eps": d.float(0.01, 0.5), "momentum": d.float(0, 1)})


@reference("instance_norm", draw=drawn_instance, values="unit", n=lambda x, *a, **k: x.size // x.shape[1], tolerance=drawn_bound, result="same")
def instance_norm(x, mean=None, var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5):
    if not use_input_stats:
        return batch_norm(x, mean, var, weight, bias, eps=eps)
    axes = tuple(range(2, x.ndim))
    y = affine(normalised(x, axes, eps), weight, bias)
    if mean is None:
        return y
    return y, (1 - momentum) * mean + momentum * x.mean(axes).mean(0), (1 - momentum) * var + momentum * x.var(axes, ddof=1).mean(0)


def drawn_response(d):
    return d.tensor((d.int(0, 3), d.int(1, 5), d.int(1, 4)) + d.shape(max_rank=2)), d.int(1, 7), {
        "alpha": d.float(0, 1), "beta": d.choice((0.75, 1.0, 0.5)), "k": d.float(1, 2)}


@reference("local_response_norm", draw=drawn_response, values="moderate", result="same", n=lambda x, size, **k: size)
def local_response_norm(x, size, alpha=1e-4, beta=0.75, k=1.0):
    energy = np.zeros(x.shape)
    for i in range(x.shape[1]):
        energy[:, i] = (x[:, max(0, i - size // 2): i + (size - 1) // 2 + 1] ** 2).sum(1)
    return x / (k + alpha / size * energy) ** beta


def drawn_adaln(d):
    x = d.tensor(min_rank=1, low=1)
    return x, d.tensor(d.broadcast(d.first_shape)), d.tensor(d.broadcast(d.first_shape)), {"eps": d.float(0.01, 0.5)}


@reference("adaln", draw=drawn_adaln, values="unit", tolerance=drawn_bound, result="same", n=lambda x, *a, **k: x.shape[-1])
def adaln(x, scale, shift, eps=1e-5):
    return (1 + scale) * normalised(x, -1, eps) + shift


def drawn_weight(d):
    v = d.tensor(min_rank=1, low=1)
    dim = d.axis()
    n = d.first_shape[dim]
    shape = [1] * len(d.first_shape)
    shape[dim] = n
    return v, d.tensor((n,) if d.bool() else shape), {"dim": dim}


@reference("weight_norm", draw=drawn_weight, values="positive", result="same", n=lambda v, g, dim: v.size // v.shape[dim])
def weight_norm(v, g, dim=0):
    axes = tuple(k for k in range(v.ndim) if k != dim % v.ndim)
    shape = [1] * v.ndim
    shape[dim] = -1
    return g.reshape(shape) * v / np.sqrt((v * v).sum(axes, keepdims=True))


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def drawn_softmin(d):
    return d.tensor(min_rank=1, low=1), {"dim": d.axis()}


@reference("softmin", draw=drawn_softmin, values="moderate", n=lambda x, dim: x.shape[dim], result="same")
def softmin(x, dim=-1):
    return softmax(-x, dim)


# ---- embeddings and positions ----

def drawn_bag(d):
    V, D = d.int(1, 7), d.int(1, 5)
    mode = d.choice(("sum", "mean", "max"))
    weights = None
    if d.bool():
        shape = (d.int(0, 4), d.int(0, 5))
        ids, offsets, last = Operand(d.rng.integers(0, V, shape).astype(np.int32), "int32", []), None, False
    else:
        shape, last = (d.int(0, 9),), d.bool()
        ids = Operand(d.rng.integers(0, V, shape).astype(np.int32), "int32", [])
        starts = np.sort(d.rng.integers(0, shape[0] + 1, d.int(1, 5))).astype(np.int32)
        starts[0] = 0
        offsets = Operand(starts, "int32", [])
    if mode == "sum" and d.bool():
        weights = d.tensor(shape)
    return ids, d.tensor((V, D)), offsets, {"mode": mode, "per_sample_weights": weights, "include_last_offset": last,
                                            "padding_idx": d.int(0, V - 1) if d.bool() else None}


@reference("embedding_bag", draw=drawn_bag, values="moderate",
           tolerance=lambda e: 16 * e["eps"] * e["embedding_bag"]())
def embedding_bag(ids, weight, offsets=None, mode="mean", per_sample_weights=None, include_last_offset=False, padding_idx=None):
    scale = np.ones(ids.shape) if per_sample_weights is None else per_sample_weights
    if offsets is None:
        bags = [(r, s) for r, s in zip(ids, scale)]
    else:
        edges = list(offsets) + ([] if include_last_offset else [len(ids)])
        bags = [(ids[int(a):int(b)], scale[int(a):int(b)]) for a, b in zip(edges, edges[1:])]
    out = np.zeros((len(bags), weight.shape[1]))
    for i, (r, s) in enumerate(bags):
        keep = np.ones(len(r), bool) if padding_idx is None else r != padding_idx
        rows = weight[r[keep].astype(int)] * s[keep][:, None]
        if len(rows):
            out[i] = {"sum": rows.sum, "mean": rows.mean, "max": rows.max}[mode](0)
    return out


def drawn_positions(d):
    dtype = d.choice(("int32", "int64", "uint8"))
    shape = d.shape(max_rank=4)
    x = Operand(d.rng.integers(0, 100 if dtype == "uint8" else 1 << 20, shape).astype(dtype), dtype, [])
    return x, 2 * d.int(1, 5), {"base": d.choice((10000.0, 100.0)), "interleaved": d.bool()}


@reference("sinusoidal_embedding", draw=drawn_positions, result="float32", tolerance=lambda e: 1e-5)
def sinusoidal_embedding(positions, dim, base=10000.0, interleaved=True):
    angle = positions[..., None] * base ** (-np.arange(0, dim, 2) / dim)
    parts = np.sin(angle), np.cos(angle)
    return np.stack(parts, -1).reshape(positions.shape + (dim,)) if interleaved else np.concatenate(parts, -1)


def drawn_bucket(d):
    dtype = d.choice(("int32", "int64", "int8"))
    x = Operand(d.rng.integers(-120, 120, d.shape(max_rank=4)).astype(dtype), dtype, [])
    return x, {"bidirectional": d.bool(), "num_buckets": d.choice((32, 8, 64)), "max_distance": d.choice((128, 33, 100))}


@reference("relative_position_bucket", draw=drawn_bucket, result="int32")
def relative_position_bucket(x, bidirectional=True, num_buckets=32, max_distance=128):
    nb = num_buckets // 2 if bidirectional else num_buckets
    n = np.abs(x) if bidirectional else np.maximum(-x, 0)
    exact = nb // 2
    large = exact + np.floor(np.log(np.maximum(n, exact) / exact) / math.log(max_distance / exact) * (nb - exact) + 1e-9)
    return (bidirectional * nb * (x > 0) + np.where(n < exact, n, np.minimum(large, nb - 1))).astype(np.int64)


def drawn_bias(d):
    return d.tensor((d.choice((32, 8, 64)), d.int(1, 4))), d.int(0, 6), d.int(0, 9), {
        "bidirectional": d.bool(), "max_distance": d.choice((128, 33)), "query_offset": d.int(0, 3)}


@reference("relative_position_bias", draw=drawn_bias, values="finite", result="same")
def relative_position_bias(table, query_length, key_length, bidirectional=True, max_distance=128, query_offset=0):
    relative = np.arange(key_length)[None] - np.arange(query_length)[:, None] - query_offset
    return table[relative_position_bucket(relative, bidirectional, table.shape[0], max_distance)].transpose(2, 0, 1)


@reference("alibi_slopes", draw=lambda d: (d.int(1, 40),))
def alibi_slopes(n):
    p = 2 ** int(math.log2(n))
    next_power = [2 ** (-8 * (i + 1) / (2 * p)) for i in range(2 * p)]
    return np.array([2 ** (-8 * (i + 1) / p) for i in range(p)] + next_power[0::2][:n - p])


def rotate(x, angle, interleaved):
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else np.split(x, 2, -1)
    y = np.stack([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)
    return y.reshape(x.shape) if interleaved else np.moveaxis(y, -1, -2).reshape(x.shape)


def drawn_rope_3d(d):
    grid = d.int(1, 3), d.int(1, 3), d.int(0, 3)
    return (d.tensor(d.shape(max_rank=2) + (math.prod(grid), 6 * d.int(1, 2))), *grid, {"base": d.choice((10000.0, 50.0)), "interleaved": d.bool()})


@reference("rope_3d", draw=drawn_rope_3d, values="moderate", result="same")
def rope_3d(x, gt, gh, gw, base=10000.0, interleaved=False):
    size = x.shape[-1] // 3
    places = np.indices((gt, gh, gw)).reshape(3, -1)
    turn = base ** (-np.arange(size // 2) * 2.0 / size)
    return np.concatenate([rotate(x[..., i * size:(i + 1) * size], places[i][:, None] * turn, interleaved) for i in range(3)], -1)


def drawn_sections(d):
    sections = [d.int(0, 3) for _ in range(d.int(1, 3))]
    sections[0] += 1
    t = d.int(1, 5)
    positions = Operand(d.rng.integers(0, 200, (len(sections), t)).astype(np.int32), "int32", [])
    return d.tensor(d.shape(max_rank=2) + (t, 2 * sum(sections) + d.int(0, 2))), positions, {
        "sections": sections, "base": d.choice((10000.0, 50.0)), "interleaved": d.bool()}


@reference("rope_sections", draw=drawn_sections, values="moderate", result="same",
           tolerance=lambda e: (12 * e["eps"] + 1e-6) * max(e["M"], float(np.max(np.abs(e["a"]), initial=0))))
def rope_sections(x, positions, sections, base=10000.0, interleaved=False):
    pairs = sum(sections)
    turn = base ** (-np.arange(pairs) / pairs)
    angle = (positions[np.repeat(np.arange(len(sections)), sections)] * turn[:, None]).T
    return np.concatenate([rotate(x[..., :2 * pairs], angle, interleaved), x[..., 2 * pairs:]], -1)


# ---- losses ----

def fold(loss, reduction):
    return {"mean": np.mean, "sum": np.sum, "none": lambda x: x, "batchmean": lambda x: x.sum() / max(x.shape[0], 1) if x.ndim else x}[reduction](loss)


REDUCTIONS = ("mean", "sum", "none")


def loss(name, function, draw, values="moderate", **options):
    """A loss of the elements, and how its terms cancel: the bound is on the largest of them and of the inputs."""
    def whole(*args, reduction="mean", **kw):
        return fold(function(*args, **kw), reduction)

    def count(*args, reduction="mean", **kw):
        return max(1, np.asarray(function(*args, **kw)).size if reduction != "none" else 1)

    def drawn(d):
        parts = draw(d)
        kw = parts[-1] if isinstance(parts[-1], dict) else {}
        args = parts[:-1] if isinstance(parts[-1], dict) else parts
        return (*args, {**kw, "reduction": d.choice(REDUCTIONS)})
    options.setdefault("tolerance", lambda e: (e["n"] + 32) * e["eps"] * (e["S"] + SCALE(e) * np.where(e["S"] > SCALE(e), e["n"], 1)))
    reference(name, draw=drawn, values=values, n=count, **options)(whole)


def SCALE(e):
    """A bound on what an element's terms add up to: squares of the largest input."""
    return (1 + e["X"]) ** 2


def two(d):
    a = d.tensor()
    return a, d.tensor(d.first_shape)


def two_broadcast(d):
    a = d.tensor()
    return a, d.tensor(d.broadcast(d.first_shape))


loss("mse_loss", lambda a, b, weight=None: (a - b) ** 2, two_broadcast, result="same")
loss("l1_loss", lambda a, b: np.abs(a - b), two_broadcast, result="same")
loss("smooth_l1_loss", lambda a, b, beta: np.where(np.abs(a - b) < beta, (a - b) ** 2 / (2 * beta if beta else 1), np.abs(a - b) - beta / 2),
     lambda d: (*two(d), {"beta": d.choice((1.0, 0.5, 0.0))}), result="same")
loss("huber_loss", lambda a, b, delta: np.where(np.abs(a - b) <= delta, (a - b) ** 2 / 2, delta * (np.abs(a - b) - delta / 2)),
     lambda d: (*two(d), {"delta": d.choice((1.0, 0.5, 2.0))}), result="same")


def drawn_bce(d):
    shape = d.shape()
    p = Operand((d.rng.integers(0, 65, shape) / 64).astype(d.tensor((), values="unit").base.dtype), d.dtype, [])
    return p, Operand((d.rng.integers(0, 65, shape) / 64).astype(p.base.dtype), d.dtype, [])


def bce(p, t, weight=None):
    y = -(t * np.maximum(np.log(p), -100) + (1 - t) * np.maximum(np.log1p(-p), -100))
    return y if weight is None else y * weight


loss("binary_cross_entropy", bce, drawn_bce, result="same", tolerance=lambda e: (e["n"] + 32) * e["eps"] * (e["S"] + 200))


def drawn_logits(d):
    x = d.tensor(min_rank=1)
    shape = d.first_shape
    return x, d.tensor(shape, values="unit"), d.tensor(d.broadcast(shape), values="positive") if d.bool() else None, {
        "pos_weight": d.tensor(shape[-1:], values="positive") if d.bool() else None}


def bce_logits(x, t, weight=None, pos_weight=None):
    y = (1 - t) * x + (1 if pos_weight is None else 1 + (pos_weight - 1) * t) * np.logaddexp(0, -x)
    return y if weight is None else y * weight


loss("binary_cross_entropy_with_logits", bce_logits, drawn_logits, values="moderate", result="same",
     tolerance=lambda e: (e["n"] + 64) * e["eps"] * (e["S"] + (1 + e["X"]) ** 3 * np.where(e["S"] > e["X"], e["n"], 1)))


def kl(x, t, log_target):
    if log_target:
        return np.exp(t) * (t - x)
    return np.where(t == 0, 0, t * np.log(np.where(t == 0, 1, t))) - t * x


def drawn_kl(d):
    log_target = d.bool()
    x = d.tensor(min_rank=1, low=1)
    return x, d.tensor(d.first_shape, values="unit" if log_target else "positive"), {"log_target": log_target}


loss("kl_div", kl, drawn_kl, result="same")
loss("poisson_nll_loss", lambda x, t, log_input, full, eps: (np.exp(x) - t * x if log_input else x - t * np.log(x + eps)) +
     (np.where(t > 1, t * np.log(t) - t + 0.5 * np.log(2 * np.pi * t), 0) if full else 0),
     lambda d: (*two(d), {"log_input": d.bool(), "full": d.bool(), "eps": 2.0**-10}), values="positive", result="same",
     tolerance=lambda e: (e["n"] + 64) * e["eps"] * (e["S"] + SCALE(e) * e["n"] + np.exp(e["X"]) * e["n"]))


def drawn_gaussian(d):
    x = d.tensor(min_rank=1)
    shape = d.first_shape
    return x, d.tensor(shape), d.tensor(d.choice((shape, shape[:-1] + (1,))), values="positive"), {"full": d.bool(), "eps": 2.0**-10}


def gaussian(x, t, var, full, eps):
    v = np.maximum(var, eps)
    return 0.5 * (np.log(v) + (x - t) ** 2 / v) + (0.5 * math.log(2 * math.pi) if full else 0)


loss("gaussian_nll_loss", gaussian, drawn_gaussian, values="unit", result="same",
     tolerance=lambda e: (e["n"] + 64) * e["eps"] * (e["S"] + (8 + 1000 * (1 + e["X"]) ** 2)))


def sign(d, shape):
    kind = "float32" if d.dtype == "bfloat16" else d.dtype
    return Operand(d.rng.choice([-1, 1], shape).astype(kind), kind, [])


loss("margin_ranking_loss", lambda a, b, y, margin: np.maximum(0, -y * (a - b) + margin),
     lambda d: (*two(d), sign(d, d.first_shape), {"margin": d.choice((0.0, 0.5))}), dtypes=FLOATS)
loss("hinge_embedding_loss", lambda a, y, margin: np.where(y == 1, a, np.maximum(0, margin - a)),
     lambda d: (d.tensor(), sign(d, d.first_shape), {"margin": d.choice((1.0, 0.5))}))
loss("soft_margin_loss", lambda a, y: np.logaddexp(0, -y * a), lambda d: (d.tensor(), sign(d, d.first_shape)))


def cosine(a, b, y, margin):
    c = (a * b).sum(-1) / np.sqrt(((a * a).sum(-1) + 1e-12) * ((b * b).sum(-1) + 1e-12))
    return np.where(y == 1, 1 - c, np.maximum(0, c - margin))


def drawn_cosine(d):
    shape = d.shape(max_rank=1) + (d.int(1, 9),)
    return d.tensor(shape), d.tensor(shape), sign(d, shape[:-1]), {"margin": d.choice((0.0, 0.5))}


loss("cosine_embedding_loss", cosine, drawn_cosine, values="unit", tolerance=lambda e: (e["n"] + 64) * e["eps"] * (e["S"] + 4))


def p_norm(z, p):
    if p == 0:
        return (z != 0).sum(-1).astype(float)
    return np.max(np.abs(z), -1, initial=0) if p == math.inf else (np.abs(z) ** p).sum(-1) ** (1 / p)


NORMS = (0.0, 1.0, 2.0, 3.0, math.inf)


def triplet(a, p, n, margin, order, swap):
    near, far = p_norm(a - p + 1e-6, order), p_norm(a - n + 1e-6, order)
    return np.maximum(0, near - (np.minimum(far, p_norm(p - n + 1e-6, order)) if swap else far) + margin)


def drawn_triplet(d):
    a = d.tensor(min_rank=1, low=1)
    return a, d.tensor(d.first_shape), d.tensor(d.first_shape), {"margin": d.choice((1.0, 0.5)), "p": d.choice((1.0, 2.0, 3.0)), "swap": d.bool()}


loss("triplet_margin_loss", lambda a, b, c, margin, p, swap: triplet(a, b, c, margin, p, swap), drawn_triplet, values="unit", result="same",
     tolerance=lambda e: (e["n"] + 64) * e["eps"] * (e["S"] + 64))


# ---- losses over classes ----

def log_softmax(x, axis):
    x = x - x.max(axis, keepdims=True)
    return x - np.log(np.exp(x).sum(axis, keepdims=True))


def class_axis(x):
    return 0 if x.ndim == 1 else 1


def over_classes(lp, target, weight, ignore_index, reduction, smoothing):
    axis = class_axis(lp)
    C = lp.shape[axis]
    along = (np.ones(C) if weight is None else weight).reshape((C,) + (1,) * (lp.ndim - axis - 1))
    if target.shape == lp.shape and target.dtype.kind == "f":
        terms = -(lp * ((1 - smoothing) * target + smoothing / C) * along).sum(axis)
        return terms.sum() / np.float64(terms.size) if reduction == "mean" else fold(terms, reduction)
    live = target != ignore_index
    safe = np.where(live, target, 0).astype(int)
    w = np.where(live, 1.0 if weight is None else weight[safe], 0.0)
    picked = np.take_along_axis(lp, np.expand_dims(safe, axis), axis).squeeze(axis)
    terms = (1 - smoothing) * -picked * w + smoothing / C * np.where(live, -(lp * along).sum(axis), 0)
    return terms.sum() / w.sum() if reduction == "mean" else fold(terms, reduction)


def drawn_classes(soft):
    def drawn(d):
        C = d.int(1, 6)
        shape = (C,) if d.int(0, 4) == 0 else (d.int(0, 4), C) + d.shape(max_rank=2, low=1)
        axis = 0 if len(shape) == 1 else 1
        x = d.tensor(shape)
        kw = {"weight": d.tensor((C,), values="positive") if d.bool() else None, "reduction": d.choice(REDUCTIONS)}
        if soft:
            kw["label_smoothing"] = d.choice((0.0, 0.25, 1.0))
        if soft and d.bool():
            return x, d.tensor(shape, values="positive"), kw
        target = d.rng.integers(0, C, shape[:axis] + shape[axis + 1:])
        if d.bool():
            target = np.where(d.rng.random(target.shape) < 0.3, -100, target)
        return x, Operand(np.asarray(target, np.int32), "int32", []), kw
    return drawn


CLASS_BOUND = {"tolerance": lambda e: (e["n"] + 64) * e["eps"] * (e["S"] + (1 + e["X"]) ** 3 * np.maximum(1, e["n"] if np.ndim(e["S"]) == 0 else 8))}


@reference("cross_entropy", draw=drawn_classes(True), values="unit", result="same", n=lambda x, *a, **k: max(1, x.size), **CLASS_BOUND)
def cross_entropy(x, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    return over_classes(log_softmax(x, class_axis(x)), target, weight, ignore_index, reduction, label_smoothing)


@reference("nll_loss", draw=drawn_classes(False), values="unit", result="same", n=lambda x, *a, **k: max(1, x.size), **CLASS_BOUND)
def nll_loss(x, target, weight=None, ignore_index=-100, reduction="mean"):
    return over_classes(x, target, weight, ignore_index, reduction, 0.0)


# ---- distances ----

def drawn_pairwise(d):
    a = d.tensor(min_rank=1, low=1)
    return a, d.tensor(d.first_shape), {"p": d.choice(NORMS), "eps": d.choice((0.0, 2.0**-10)), "keepdim": d.bool()}


@reference("pairwise_distance", draw=drawn_pairwise, values="unit", result="same", n=lambda a, *r, **k: a.shape[-1])
def pairwise_distance(a, b, p=2.0, eps=1e-6, keepdim=False):
    y = p_norm(a - b + eps, p)
    return y[..., None] if keepdim else y


def drawn_cdist(d):
    batch, m = d.shape(max_rank=2), d.int(0, 6)
    return d.tensor(batch + (d.int(0, 4), m)), d.tensor(d.broadcast(batch) + (d.int(0, 4), m)), {"p": d.choice(NORMS)}


@reference("cdist", draw=drawn_cdist, values="unit", n=lambda a, *r, **k: max(1, a.shape[-1]))
def cdist(a, b, p=2.0):
    return p_norm(a[..., :, None, :] - b[..., None, :, :], p)


def drawn_bilinear(d):
    lead, i, j, o = d.shape(max_rank=3), d.int(1, 5), d.int(1, 5), d.int(0, 4)
    return d.tensor(lead + (i,)), d.tensor(lead + (j,)), d.tensor((o, i, j)), d.tensor((o,)) if d.bool() else None


@reference("bilinear", draw=drawn_bilinear, values="unit",
           tolerance=lambda e: (40 + 32) * e["eps"] * e["bilinear"]())
def bilinear(a, b, weight, bias=None):
    y = np.einsum("...i,oij,...j->...o", a, weight, b)
    return y if bias is None else y + bias
