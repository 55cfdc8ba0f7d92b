#!/usr/bin/env python3
"""weft's operations beside NumPy, onnxruntime and JAX (compiled, on the CPU), as ratios in one process.

    bench_ops.py --build DIR [--out FILE.json | --json] [--rounds N] [--filter TEXT] [--least]

In each round every library computes the same row in turn, several times, and gives its median; the figures are medians
of the rounds. Ratio is the time of the best peer over weft's: above 1 weft is faster. Results are compared before they
are timed. The rows are in ops_rows.py. onnxruntime and onnx come from build/peers/python, where `make bench` puts them;
a library that is not there is named and left out.
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time

import numpy as np

import ops_rows

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROUND_S = 0.12    # of one library in a round, at least
MAX_CALLS = 400
PAUSE_S = 0.01    # threads of the library before may still spin
SIZE_ONE_US = {"C": 1.0, "Python": 3.0}


# ---- the libraries: each turns a row into a function without arguments that returns its result ----

class Weft:
    name = "weft"

    def __init__(self, build):
        sys.path.insert(0, os.path.join(build, "python"))
        import weft
        weft.device("cpu")
        self.weft, self.version = weft, weft.__version__

    def prepare(self, row):
        tensors = [self.weft.tensor(x) for x in row.inputs]
        return lambda: row.weft(self.weft, *tensors).eval()

    def array(self, result):
        return result.numpy()


class NumPy:
    name, version = "numpy", np.__version__

    def prepare(self, row):
        return lambda: row.numpy(*row.inputs)

    def array(self, result):
        return result


class Jax:
    name = "jax"

    def __init__(self):
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        import jax
        import jax.numpy
        self.jax, self.version = jax, jax.__version__

    def prepare(self, row):
        if not row.jax:
            return None
        arrays = [self.jax.device_put(x) for x in row.inputs]
        compiled = self.jax.jit(lambda *x: row.jax(self.jax.numpy, self.jax, *x))
        return lambda: compiled(*arrays).block_until_ready()

    def array(self, result):
        return np.asarray(result)


class OnnxRuntime:
    """Inputs and result stay where the session has them (an I/O binding), as a user of speed would do."""
    name = "onnxruntime"

    def __init__(self):
        import onnx
        import onnxruntime
        self.onnx, self.ort, self.version = onnx, onnxruntime, onnxruntime.__version__

    def prepare(self, row):
        if not row.onnx:
            return None
        onnx, helper = self.onnx, self.onnx.helper
        dtype = {k: helper.np_dtype_to_tensor_dtype(np.dtype(k)) for k in ("float32", "float16", "int32", "int64")}
        nodes = [helper.make_node(op, inputs, outputs, **attributes) for op, inputs, outputs, attributes in row.onnx]
        inputs = [helper.make_tensor_value_info(str(i), dtype[x.dtype.name], x.shape) for i, x in enumerate(row.inputs)]
        result = helper.make_tensor_value_info("y", dtype[row.inputs[0].dtype.name], None)
        constants = [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in row.constants.items()]
        model = helper.make_model(helper.make_graph(nodes, "row", inputs, [result], constants), opset_imports=[helper.make_opsetid("", 20)])
        model.ir_version = 10
        options = self.ort.SessionOptions()
        options.log_severity_level = 3
        session = self.ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        kept = [self.ort.OrtValue.ortvalue_from_numpy(x) for x in row.inputs]
        for i, value in enumerate(kept):
            binding.bind_ortvalue_input(str(i), value)
        binding.bind_output("y", "cpu")

        def call():
            session.run_with_iobinding(binding)
            return binding
        return call

    def array(self, result):
        return result.copy_outputs_to_cpu()[0]


def libraries(build):
    found, missing = [Weft(build), NumPy()], []
    for make in (OnnxRuntime, Jax):
        try:
            found.append(make())
        except ImportError as error:
            missing.append(f"{make.name} ({error})")
    return found, missing


# ---- one row ----

def worst(row, got):
    """The error over what is allowed; NumPy's own result counts where there is no rounding."""
    if row.exact is None:
        want = row.numpy(*row.inputs)
        return 0.0 if got.shape == want.shape and np.array_equal(got, want) else float("inf")
    want = np.asarray(row.exact(*[x.astype(np.float64) for x in row.inputs]))
    if got.shape != want.shape:
        return float("inf")
    scale = max(1.0, float(np.abs(want).max()))
    return float(np.abs(got - want).max() / (scale * ops_rows.F32_EPS * (16 + 4 * row.terms)))


def timed(call, calls, of=statistics.median):
    """Seconds of one; results are given back between, as in a loop of a program."""
    spent = []
    for _ in range(calls):
        start = time.perf_counter()
        result = call()
        spent.append(time.perf_counter() - start)
        del result
    return of(spent)


def triad_limit(build):
    """Bytes a second of this machine's triad, measured by weft bench now; None where it cannot be had."""
    done = subprocess.run([os.path.join(build, "weft"), "bench", "--device", "cpu", "--filter", "copy", "--json"], capture_output=True, text=True)
    return json.loads(done.stdout)["limits"]["triad"]["value"] * 1e9 if done.returncode == 0 else None


def measure(row, found, rounds, of, triad):
    calls, samples, wrong = {}, {}, []
    for library in found:
        call = library.prepare(row)
        if not call:
            continue
        error = worst(row, library.array(call()))
        if not error <= 1:
            wrong.append(f"{library.name} is {error:.3g} times the allowed error away")
        calls[library.name] = (call, max(1, min(MAX_CALLS, int(ROUND_S / timed(call, 3)))))
        samples[library.name] = []
    for _ in range(rounds):
        for name, (call, n) in calls.items():
            time.sleep(PAUSE_S)
            call()
            samples[name].append(timed(call, n, of))
    times = {name: of(v) for name, v in samples.items()}
    peers = {name: t for name, t in times.items() if name != "weft"}
    best = row.against if row.against in peers else min(peers, key=peers.get)
    below = [f"{ratio} of {name}" for name, ratio in row.marks.items() if name in peers and peers[name] / times["weft"] < ratio]
    share = row.bytes / times["weft"] / triad if triad and row.limit else None
    if share is not None and share < row.limit:
        below.append(f"{row.limit} of triad")
    if row.mark is not None and peers[best] / times["weft"] < row.mark:
        below.append(f"{row.mark} of {best}")
    return {"name": row.name, "unit": "ms", "times": {k: 1e3 * v for k, v in times.items()},
            "samples": {k: [1e3 * s for s in v] for k, v in samples.items()}, "best_peer": best, "ratio": peers[best] / times["weft"],
            "mark": row.mark, "marks": row.marks, "triad_share": share, "below": below, "wrong": wrong}


def print_row(r, names):
    cells = "".join(f"{r['times'][n]:10.3f}" if n in r["times"] else f"{'-':>10}" for n in names)
    mark = "" if r["mark"] is None else f" (mark {r['mark']:.2f})"
    share = "" if r["triad_share"] is None else f", {r['triad_share']:.2f} of triad"
    below = f" BELOW {', '.join(r['below'])}" if r["below"] else ""
    print(f"{r['name']:48}{cells}  {r['ratio']:6.2f} of {r['best_peer']}{mark}{share}{below}", flush=True)
    for line in r["wrong"]:
        print("  WRONG:", line)


# ---- tensors of one element ----

def size_one_c(args):
    program = os.path.join(args.peers, "size_one")
    build = os.path.abspath(args.build)
    done = subprocess.run(["cc", "-O2", "-I", os.path.join(ROOT, "include"), os.path.join(ROOT, "bench", "size_one.c"), "-o", program, "-L", build,
                           "-Wl,-rpath," + build, "-lweft"], capture_output=True, text=True)
    if done.returncode == 0:
        done = subprocess.run([program], capture_output=True, text=True)
    if done.returncode:
        return None, (done.stderr.strip().splitlines() or ["failed"])[-1]
    return float(done.stdout) / 1e3, None


def size_one(args, found):
    one = np.ones(1, np.float32)
    row = ops_rows.Row("add of one element", [one, one], lambda wf, a, b: a + b, lambda a, b: a + b, lambda jnp, jax, a, b: a + b,
                       [("Add", ["0", "1"], ["y"], {})])
    calls = {library.name: library.prepare(row) for library in found}
    samples = {name: [] for name in calls}
    from_c, batch = [], 2000
    for _ in range(args.rounds):
        for name, call in calls.items():
            time.sleep(PAUSE_S)
            for _ in range(200):
                call()
            start = time.perf_counter()
            for _ in range(batch):
                call()
            samples[name].append((time.perf_counter() - start) / batch * 1e6)
        us, why = size_one_c(args)
        if us is None:
            print("size-1 from C: not measured:", why)
        else:
            from_c.append(us)
    times = {name: statistics.median(v) for name, v in samples.items()}
    report = {"name": row.name, "unit": "us", "times": times, "samples": samples, "from_c": statistics.median(from_c) if from_c else None,
              "samples_from_c": from_c, "marks": SIZE_ONE_US}
    if from_c:
        print(f"add of one element, from C: {report['from_c']:.2f} us (mark {SIZE_ONE_US['C']:.0f})")
    print(f"add of one element, from Python: weft {times['weft']:.2f} us (mark {SIZE_ONE_US['Python']:.0f}),",
          ", ".join(f"{n} {t:.2f}" for n, t in times.items() if n != "weft"), flush=True)
    return report


# ---- the first call of an expression that was not seen before ----

def first_call(found, rounds):
    """Milliseconds until the result of a new expression of twelve operations on a small tensor is there. Each round's
    expression has constants and a shape of its own, so that nothing of the rounds before is found again."""
    samples = {library.name: [] for library in found if library.name in ("weft", "jax")}
    for i in range(rounds):
        x = np.linspace(0, 1, 6 * (17 + i), dtype=np.float32).reshape(6, -1)
        row = ops_rows.Row("first call", [x], lambda wf, x: ops_rows.chain(wf, 12, x, 1.5 + i, 0.25 + i).sum(1), None,
                           lambda jnp, jax, x: ops_rows.chain(jnp, 12, x, 1.5 + i, 0.25 + i).sum(1))
        for library in found:
            if library.name in samples:
                start = time.perf_counter()
                call = library.prepare(row)
                call()
                samples[library.name].append(1e3 * (time.perf_counter() - start))
    times = {name: statistics.median(v) for name, v in samples.items()}
    print("first call of a new expression of twelve operations, ms:", ", ".join(f"{n} {t:.2f}" for n, t in times.items()))
    return {"unit": "ms", "times": times, "samples": samples}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--out", default="")
    parser.add_argument("--json", action="store_true", help="the report on standard output, the table on standard error")
    parser.add_argument("--peers", default=os.path.join(ROOT, "build", "peers"))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--filter", default="", help="rows whose name has one of these, separated by commas; 'size' is the size-1 rows, 'first' the first call of an expression")
    parser.add_argument("--least", action="store_true", help="the fastest call of all instead of medians: for work on a machine that is busy")
    args = parser.parse_args()
    of = min if args.least else statistics.median
    standard = sys.stdout
    if args.json:
        sys.stdout = sys.stderr
    os.makedirs(args.peers, exist_ok=True)
    sys.path.append(os.path.join(args.peers, "python"))  # behind what Python has already
    found, missing = libraries(args.build)
    names = [library.name for library in found]
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    report = {"command": "bench/bench_ops.py", "commit": commit, "system": platform.platform(), "processors": os.cpu_count(),
              "libraries": {library.name: library.version for library in found}, "missing": missing, "rounds": args.rounds, "figure": "least" if args.least else "median",
              "load_before": os.getloadavg(), "rows": []}
    print("libraries:", ", ".join(f"{library.name} {library.version}" for library in found), f"on {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    for line in missing:
        print("not there:", line)
    print(f"{'milliseconds':48}" + "".join(f"{n:>10}" for n in [n.replace('onnxruntime', 'onnxrt') for n in names]) + "   best peer over weft")
    triad = triad_limit(args.build)
    report["triad_bytes_per_s"] = triad
    wanted = [w for w in args.filter.split(",") if w]
    for row in ops_rows.all_rows():
        if wanted and not any(w in row.name for w in wanted):
            continue
        report["rows"].append(measure(row, found, args.rounds, of, triad))
        print_row(report["rows"][-1], names)
    if not wanted or "size" in wanted:
        report["size_one"] = size_one(args, found)
    if not wanted or "first" in wanted:
        report["first_call"] = first_call(found, args.rounds)
    report["load_after"] = os.getloadavg()
    text = json.dumps(report, indent=1) + "\n"
    if args.json:
        standard.write(text)
    if args.out:
        with open(args.out, "w") as f:
            f.write(text)
    return 1 if any(r["wrong"] for r in report["rows"]) else 0


if __name__ == "__main__":
    sys.exit(main())
