#!/usr/bin/env python3
"""weft beside its peers and the machine's limits, as ratios in one run.

    bench.py --build DIR [--out FILE.json] [--peers DIR] [--rounds N] [--quick]

Prints goal, value and limit of each row of `weft bench`, and writes all of it as JSON. Peers:
  - matrix libraries that are installed (oneDNN, OpenBLAS, BLIS), in turn with weft, N rounds;
  - llama-bench: WEFT_LLAMA_BENCH names it, else it is built once from the llama-cpp-python source package
    into DIR (default build/peers; several minutes).
Every figure is a median; machines are noisy, so judge the ratios.
"""
import argparse
import ctypes.util
import glob
import json
import os
import platform
import statistics
import subprocess
import sys
import tarfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LLAMA = "llama-cpp-python==0.3.36"
# name of a row of `weft bench`: (share of which limit is asked for, first mark)
MARKS = {
    "relu(a*b+c)-d f32 16M": 0.70,
    "softmax f32 4096x4096": 0.45,
    "rms_norm f32 4096x4096": 0.45,
    "linear f16 1x4096x4096 of 6": 0.60,
    "linear q8_0 1x4096x4096 of 8, int8 activations": 0.60,
}


def run(command, env=None, **options):
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(env or {})}, **options)


def weft_bench(weft, *args):
    done = run([weft, "bench", "--json", "--device", "cpu", *args])
    if done.returncode:
        sys.exit(done.stderr.strip())
    return json.loads(done.stdout)


def matrix_peers(build):
    """name: (library, environment) of the installed ones."""
    threads = str(os.cpu_count())
    env = {"OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads, "BLIS_NUM_THREADS": threads}
    found = {}
    for name, short in (("onednn", "dnnl"), ("openblas", "openblas"), ("blis", "blis")):
        library = ctypes.util.find_library(short)
        candidates = [library] if library else []
        for pattern in (f"/usr/lib/*/lib{short}.so*", f"/usr/lib/*/{short}*/lib{short}.so*", f"/usr/lib/*/{short}-*/lib{short}.so*"):
            candidates += sorted(glob.glob(pattern))
        if candidates:
            found[name] = (candidates[0], env)
    return found


def gemm(args, weft, report):
    driver = os.path.join(args.peers, "peer_gemm")
    done = run(["cc", "-O2", os.path.join(ROOT, "bench", "peer_gemm.c"), "-o", driver, "-ldl"])
    if done.returncode:
        print("no gemm peer:", done.stderr.strip().splitlines()[-1])
        return
    peers = matrix_peers(args.build)
    rates = {}
    for _ in range(args.rounds):
        for n in (1024, 2048):
            rows = weft_bench(weft, "matmul", "--filter", f"matmul f32 {n}")["rows"]
            rates.setdefault(("weft", n), []).append(next(r["value"] for r in rows if r["name"] == f"matmul f32 {n}"))
            for name, (library, env) in peers.items():
                one = run([driver, name, library, str(n)], env)
                if one.returncode == 0 and one.stdout:
                    rates.setdefault((name, n), []).append(float(one.stdout.split()[2]))
    for n in (1024, 2048):
        medians = {name: statistics.median(v) for (name, size), v in rates.items() if size == n}
        best = max((v, k) for k, v in medians.items() if k != "weft") if len(medians) > 1 else (None, None)
        row = {"name": f"matmul f32 {n}", "unit": "GFLOP/s", "rates": medians, "samples": {k[0]: v for k, v in rates.items() if k[1] == n},
               "best_peer": best[1], "ratio": medians["weft"] / best[0] if best[0] else None, "mark": 0.95}
        report["peers"].append(row)
        print(f"{row['name']:52} weft {medians['weft']:8.1f}  best {best[1]} {best[0] or 0:8.1f} GFLOP/s  ratio {row['ratio'] or 0:.3f} (mark 0.95)")


def llama_bench(args):
    named = os.environ.get("WEFT_LLAMA_BENCH")
    if named:
        return named
    folder = os.path.join(args.peers, "llama")
    program = os.path.join(folder, "build", "bin", "llama-bench")
    if os.path.exists(program):
        return program
    os.makedirs(folder, exist_ok=True)
    print("building llama-bench from", LLAMA, "(minutes)", flush=True)
    python = os.path.join(ROOT, "build", "venv", "bin", "python3")
    done = run([python if os.path.exists(python) else sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "-d",
                folder, LLAMA])
    archives = glob.glob(os.path.join(folder, "*.tar.gz"))
    if done.returncode or not archives:
        print("no llama-bench:", (done.stderr.strip().splitlines() or ["pip failed"])[-1])
        return None
    with tarfile.open(archives[0]) as archive:
        archive.extractall(folder, filter="data") if hasattr(tarfile, "data_filter") else archive.extractall(folder)
    source = glob.glob(os.path.join(folder, "*", "vendor", "llama.cpp"))[0]
    steps = [["cmake", "-S", source, "-B", os.path.join(folder, "build"), "-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON",
              "-DGGML_LLAMAFILE=ON", "-DLLAMA_CURL=OFF", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_SERVER=OFF"],
             ["cmake", "--build", os.path.join(folder, "build"), "--target", "llama-bench", "-j", str(os.cpu_count())]]
    for step in steps:
        done = run(step)
        if done.returncode:
            print("no llama-bench:", done.stderr.strip().splitlines()[-1:])
            return None
    return program


def decode(args, weft, report):
    peer = llama_bench(args)
    for kind, flags in (("f16", []), ("q8_0", ["--act", "int8"]), ("q4_0", ["--act", "int8"])):
        model = os.path.join(args.peers, f"llama-168m.{kind}.gguf")
        if not os.path.exists(model):
            run([weft, "make-model", model, "--layers", "12", "--width", "1024", "--heads", "16", "--kv-heads", "4", "--ffn", "2816", "--vocab",
                 "32000", "--type", kind], check=True)
        ours, theirs = [], []
        for _ in range(args.rounds):
            done = run([weft, "run", model, "-p", "a", "-n", "64", "--temp", "0", "--device", "cpu", "--json", *flags])
            if done.returncode:
                print("weft run:", done.stderr.strip())
                break
            ours.append(json.loads(done.stdout)["timings"]["tokens_per_s"])
            if peer:
                done = run([peer, "-m", model, "-p", "0", "-n", "64", "-t", str(os.cpu_count()), "-r", "2", "-o", "json"])
                if done.returncode == 0:
                    theirs.append(json.loads(done.stdout)[0]["avg_ts"])
        row = {"name": f"decode 168M {kind} {' '.join(flags)}".strip(), "unit": "tokens/s", "weft": statistics.median(ours) if ours else None,
               "llama.cpp": statistics.median(theirs) if theirs else None, "samples": {"weft": ours, "llama.cpp": theirs}, "mark": 0.9}
        row["ratio"] = row["weft"] / row["llama.cpp"] if ours and theirs else None
        report["peers"].append(row)
        print(f"{row['name']:52} weft {row['weft'] or 0:8.1f}  llama.cpp {row['llama.cpp'] or 0:8.1f} tokens/s  ratio {row['ratio'] or 0:.3f} (mark 0.90)",
              flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--out", default="")
    parser.add_argument("--peers", default=os.path.join(ROOT, "build", "peers"))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="limits and rows only, no peers")
    args = parser.parse_args()
    os.makedirs(args.peers, exist_ok=True)
    weft = os.path.join(args.build, "weft")
    table = weft_bench(weft)
    version = run([weft, "--version"]).stdout.strip()
    commit = run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"]).stdout.strip()
    report = {"command": "bench/bench.py", "version": version, "commit": commit, "system": platform.platform(), "load": os.getloadavg(),
              "table": table, "peers": []}
    limits = table["limits"]
    print("limits:", ", ".join(f"{k} {v['value']:.1f} {v['unit']}" for k, v in limits.items()))
    for row in table["rows"]:
        mark = MARKS.get(row["name"])
        share = row.get("share")
        print(f"{row['name']:52} {row['value']:10.1f} {row['unit']:9} {'' if share is None else f'{share:6.3f} of ' + str(row.get('limit'))}"
              f"{'' if mark is None else f' (mark {mark:.2f})'}", flush=True)
    if not args.quick:
        gemm(args, weft, report)
        decode(args, weft, report)
    if args.out:
        with open(args.out, "w") as f:
            json.dump(report, f, indent=1)
            f.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
