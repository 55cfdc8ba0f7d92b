#!/usr/bin/env python3
"""Random graphs of 5 to 60 operations, on every way that weft may take: fused, unfused, one thread, webgpu, lowered limits.

    graph_fuzz.py [--seconds S] [--seed N] [--configurations cpu,unfused,..]

A case is a program (a list of steps, graph_steps.py), evaluated four times in one context: as it is, with other data (its plan is in the
cache), with other values asked for and kept, and with one step changed (plans whose keys must differ). Several values are asked for at once, then others of the same graph. Each
configuration is held to NumPy within derived bounds, and results of two contexts that differ in threads only are equal in every bit.

A failure is made small, printed as a short program and kept as tests/regressions/found_graph_SEED.py; the fuzzing goes on. Fix the kind,
give the program a name that says what it shows, and it stays as a test. Tests with fixed seeds: test_graphs.py.
"""
import argparse
import os
import pathlib
import random
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
if __name__ == "__main__":
    sys.path.insert(0, os.path.join(os.environ.get("WEFT_BUILD") or str(HERE.parent.parent / "build" / "release"), "python"))

import numpy as np  # noqa: E402

import weft as wf  # noqa: E402
from graph_steps import STEPS, Graph, Value, play  # noqa: E402
from harness import HEAD, SMALLEST_NORMAL, array_text  # noqa: E402

KEPT = HERE.parent / "regressions"
LOWERED = "binding=134217728,buffers=8,workgroup_bytes=16384,invocations=256"
SCARCE = "binding=65536,buffers=4,workgroup_bytes=2048,invocations=32"
# name: (device, threads, environment while it is opened). What differs from the first in threads only gives its bits.
CONFIGURATIONS = {
    "cpu": ("cpu", 0, {}),
    "one-thread": ("cpu", 1, {}),
    "unfused": ("cpu", 0, {"WEFT_FUSE": "0"}),
    "webgpu": ("webgpu", 0, {}),
    "webgpu-unfused": ("webgpu", 0, {"WEFT_FUSE": "0"}),
    "webgpu-lowered": ("webgpu", 0, {"WEFT_LIMITS": LOWERED}),
    "webgpu-scarce": ("webgpu", 0, {"WEFT_LIMITS": SCARCE}),
}
ON_CPU = ("cpu", "one-thread", "unfused")
ON_WEBGPU = ("webgpu", "webgpu-unfused", "webgpu-lowered", "webgpu-scarce")
EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 31, 33, 64, 65)


def open_device(name):
    """A context of its own."""
    spec, threads, settings = CONFIGURATIONS[name]
    before = {key: os.environ.get(key) for key in ("WEFT_FUSE", "WEFT_LIMITS")}
    try:
        for key in before:
            os.environ.pop(key, None)
        os.environ.update(settings)
        return wf._weft.Device(spec, n_threads=threads)
    finally:
        for key, value in before.items():
            os.environ.pop(key, None)
            if value is not None:
                os.environ[key] = value


# ---- programs ----

class Program:
    """Steps (kind, seed, how far back its operands are, what changes places but no shapes), the extents that leaves have, the seeds of data and of what is asked for."""

    def __init__(self, extents, steps, data_seed, ask_seed):
        self.extents, self.steps, self.data_seed, self.ask_seed = extents, steps, data_seed, ask_seed

    def with_steps(self, steps):
        return Program(self.extents, steps, self.data_seed, self.ask_seed)


def draw(seed):
    r = random.Random(seed)
    extents = [r.choice(EXTENTS) for _ in range(r.choice((2, 2, 3)))] + [r.choice((1, 2, 3))]
    if r.random() < 0.05:
        extents.append(r.choice((257, 1025)))
    kinds, weights = list(STEPS), list(STEPS.values())
    count = r.choice((5, 8, 12, 20, 35, 60))
    chosen = ["leaf", *r.choices(kinds, weights, k=count)]
    steps = [(kind, r.getrandbits(40), [min(int(r.expovariate(0.7)), 50) for _ in range(6)], 0) for kind in chosen]
    return Program(extents, steps, r.getrandbits(30), r.getrandbits(30))


def variants(program):
    """The evaluations of a case."""
    r = random.Random(program.ask_seed)
    views = [k for k, step in enumerate(program.steps) if step[0] == "view"]
    at = r.choice(views) if views and r.random() < 0.6 else r.randrange(len(program.steps))
    kind, seed, backs, fine = program.steps[at]
    other = (kind, seed, backs, fine + 1) if r.random() < 0.7 else (kind, r.getrandbits(40), backs, fine)
    changed = [*program.steps[:at], other, *program.steps[at + 1:]]
    return [program, Program(program.extents, program.steps, program.data_seed + 1, program.ask_seed),
            Program(program.extents, program.steps, program.data_seed, program.ask_seed + 1), program.with_steps(changed)]


class Wrong(Exception):
    def __init__(self, value, said):
        super().__init__(said)
        self.value, self.said = value, said


def compare(value, got, least):
    """Raise where a result is further off than it may be."""
    shown = got.numpy()
    if got.dtype.name != value.dtype or shown.shape != value.shape:
        raise Wrong(value, f"{got.dtype.name} {shown.shape}, not {value.dtype} {value.shape}")
    shown = shown.astype(np.float64 if value.is_float else bool if value.dtype == "bool_" else np.int64)
    with np.errstate(invalid="ignore"):
        right = np.abs(shown - value.exact) <= value.err + least * (value.err > 0) if value.is_float else shown == value.exact
    if not right.all():
        at = tuple(int(k) for k in np.argwhere(~right)[0])
        allowed = f" within {value.err[at]:.3g}" if value.is_float else ""
        raise Wrong(value, f"element {at} is {shown[at]!r}, not {value.exact[at]!r}{allowed}; {int((~right).sum())} of {right.size} wrong")


def build(program, device):
    """The graph on a device with what is right, unevaluated but for its steps `realise`."""
    wf.device(device)
    graph = Graph(device, program.extents, program.data_seed)
    for step in program.steps:
        graph.step(*step)
    graph.values = [v for v in graph.values if v is not None]
    return graph


def replay(graph, device):
    """The same lines on another device: the tensors by the names of values."""
    wf.device(device)
    tensors = {}
    for call in graph.calls:
        tensors[call.at] = play(call, lambda v: tensors[int(v.name[1:])], device)
    return tensors


def asked(program, graph):
    """Values that are computed in one evaluation, and those that are asked for after it; without the second the others go out of
    reach first, and a memory that nobody else sees may be written in place."""
    r = random.Random(program.ask_seed)
    last = graph.values[-1]
    first = [last] + r.sample(graph.values, min(len(graph.values), r.choice((0, 0, 1, 3, 6))))
    alone = r.random() < 0.5
    return list({v.name: v for v in first}.values()), [] if alone else r.sample(graph.values, min(len(graph.values), 4))


def check(program, graph, tensors):
    """Evaluate on one device; the bytes of the results."""
    first, later = asked(program, graph)
    wanted = [tensors[int(v.name[1:])] for v in first]
    if not later:
        tensors.clear()
    wf.eval(*wanted)
    for v, t in zip(first, wanted):
        compare(v, t, SMALLEST_NORMAL[v.dtype] if v.is_float and t.device.spec != "cpu" else 0)
    for v in later:
        t = tensors[int(v.name[1:])]
        compare(v, t, SMALLEST_NORMAL[v.dtype] if v.is_float and t.device.spec != "cpu" else 0)
    return [t.numpy().tobytes() for t in wanted]


class Fuzzer:
    def __init__(self, names):
        self.names, self.devices = names, {name: open_device(name) for name in names}
        self.recorder = open_device("cpu")  # what is right is worked out beside tensors that nobody evaluates
        self.graphs = self.lines = 0

    def close(self):
        for device in [self.recorder, *self.devices.values()]:
            device.close()
        wf.device("cpu")

    def run(self, programs, names=None, devices=None):
        """None, or (configuration, which program, graph, error) of the first failure."""
        bits = {}
        for k, program in enumerate(programs):
            graph = build(program, self.recorder)
            if not graph.values:
                continue
            self.graphs, self.lines = self.graphs + 1, self.lines + len(graph.calls)
            for v in graph.values:
                v.tensor = None
            for name in names or self.names:
                try:
                    bits[name] = check(program, graph, replay(graph, (devices or self.devices)[name]))
                except Wrong as error:
                    return name, k, graph, error
                except wf.UnsupportedError as error:
                    if name != "webgpu-scarce":  # which has less than WebGPU promises
                        return name, k, graph, Wrong(graph.values[-1], f"{type(error).__name__}: {error}")
                except wf.Error as error:
                    return name, k, graph, Wrong(graph.values[-1], f"{type(error).__name__}: {error}")
            if "cpu" in bits and "one-thread" in bits and bits["cpu"] != bits["one-thread"]:
                return "one-thread", k, graph, Wrong(asked(program, graph)[0][0], "other bits with another number of threads")
        return None

    def fails(self, programs, name):
        """As run, in a new context that knows no plans."""
        names = ("cpu", "one-thread") if name == "one-thread" else (name,)
        devices = {one: open_device(one) for one in names}
        try:
            return self.run(programs, names, devices)
        finally:
            for device in devices.values():
                device.close()

    def smaller(self, programs, name):
        """(programs, failure) with as few steps as still fail, or None when it does not fail in a new context."""
        found = self.fails(programs, name)
        if not found:
            return None
        programs = programs[:found[1] + 1]
        for k in range(len(programs) - 1):  # one alone?
            alone = self.fails(programs[-1:], name)
            if alone:
                programs, found = programs[-1:], alone
                break
        size = max(len(programs[0].steps) // 2, 1)
        end = time.time() + 60
        while size and time.time() < end:
            at = 0
            while at < len(programs[0].steps) and time.time() < end:
                fewer = [p.with_steps(p.steps[:at] + p.steps[at + size:]) for p in programs]
                again = self.fails(fewer, name) if fewer[0].steps else None
                if again:
                    programs, found = fewer[:again[1] + 1], again
                else:
                    at += size
            size //= 2
        for extents in ([1, 2, 3], [2, 3], [2], [3], [4, 5]):
            fewer = [Program(extents, p.steps, p.data_seed, p.ask_seed) for p in programs]
            again = self.fails(fewer, name)
            if again:
                programs, found = fewer[:again[1] + 1], again
                break
        return programs, found

    def case(self, seed):
        """None, or the text of a failure."""
        programs = variants(draw(seed))
        found = self.run(programs)
        if not found:
            return None
        small = self.smaller(programs, found[0])
        if not small:
            return text_of(programs[found[1]:found[1] + 1], found, seed, "only after other graphs of the same context")
        return text_of(*small, seed)


# ---- a failure as a program ----

def value_text(a):
    if isinstance(a, Value):
        return a.name
    return "[" + ", ".join(value_text(one) for one in a) + "]" if isinstance(a, list) else repr(a)


def call_text(call):
    if call.name is None:
        array, dtype = call.args
        return f"v{call.at} = wf.tensor({array_text(array.astype(np.float32) if dtype == 'bfloat16' else array)}, {dtype!r})"
    if call.name == "eval":
        return f"v{call.at}.eval()"
    given = [value_text(a) for a in call.args] + [f"{key}={value_text(v)}" for key, v in call.keywords.items()]
    return f"v{call.at} = wf.{call.name}({', '.join(given)})" + ("" if call.pick is None else f"[{call.pick}]")


def text_of(programs, found, seed, note=""):
    name, _, _, error = found
    said = error.said.replace("\\", "/").replace('"', "'").splitlines()[0][:160]
    lines = [f'"""graph, configuration {name}, seed {seed}: {said}{"; " + note if note else ""}"""', *HEAD, "from check import check, opened", ""]
    _, threads, settings = CONFIGURATIONS[name]
    lines.append(f"wf.device(opened({threads}, {settings!r}))")
    recorder = open_device("cpu")
    for k, program in enumerate(programs):
        graph = build(program, recorder) if k < len(programs) - 1 else found[2]
        if not graph.values:
            continue
        first, later = asked(program, graph)
        lines.append("")
        lines += [call_text(call) for call in graph.calls]
        if not later:
            lines.append("del " + ", ".join(dict.fromkeys(f"v{call.at}" for call in graph.calls if f"v{call.at}" not in [v.name for v in first])))
            if lines[-1] == "del ":
                lines.pop()
        lines.append(f"wf.eval({', '.join(v.name for v in first)})")
        for v in [*first, *later]:
            bound = float(np.max(v.err, initial=0))
            lines.append(f"check({v.name}, {array_text(v.exact)}, {bound!r})")
    recorder.close()
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**31)
    parser.add_argument("--configurations", default=",".join(ON_CPU))
    parser.add_argument("--keep", default=str(KEPT), help="where failures are kept")
    args = parser.parse_args()
    fuzzer, begin, seed, failures, said = Fuzzer(args.configurations.split(",")), time.time(), args.seed, 0, 0.0
    while time.time() - begin < args.seconds:
        text = fuzzer.case(seed)
        if text:
            failures += 1
            print(text, flush=True)
            pathlib.Path(args.keep, f"found_graph_{seed}.py").write_text(text)
        seed += 1
        if time.time() - said > 30:
            said = time.time()
            print(f"seed {seed}: {fuzzer.graphs} graphs, {fuzzer.lines} lines, {failures} failures, {fuzzer.graphs / (said - begin):.0f} graphs/s", flush=True)
    print(f"{fuzzer.graphs} graphs, {fuzzer.lines} lines, {failures} failures, {fuzzer.graphs / (time.time() - begin):.0f} graphs/s of {args.configurations}")
    return 1 if failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
