#!/usr/bin/env python3
"""Build the fuzz targets and run each for a while.

    run_fuzz.py --seconds S [--build build/fuzz] [--keep]

Seeds come from the test data (fuzz/make_seeds.py); what a run finds stays in BUILD/corpus with --keep and
is used again. An input that breaks a target stays in BUILD/found. Prints one line a target: executions and
coverage; ends with 1 when a target failed, 2 when clang or libFuzzer is missing.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CORPUS_OF = {"fuzz_gguf": "gguf", "fuzz_safetensors": "safetensors", "fuzz_tokenizer": "tokenizer"}
MAX_INPUT_BYTES = 65536


def build(folder):
    """None, or why there are no targets."""
    if not shutil.which("clang"):
        return "no clang"
    configure = ["cmake", "--preset", "fuzz"] if folder == ROOT / "build" / "fuzz" else ["cmake", "--preset", "fuzz", "-B", str(folder)]
    for command in (configure, ["cmake", "--build", str(folder), "--target", "fuzz-targets"]):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            return f"{' '.join(command)} fails:\n{(done.stdout + done.stderr)[-3000:]}"
    return None


def run_target(folder, name, seconds, keep):
    corpus, found = folder / "corpus" / name, folder / "found"
    if not keep:
        shutil.rmtree(corpus, ignore_errors=True)
    corpus.mkdir(parents=True, exist_ok=True)
    found.mkdir(exist_ok=True)
    env = dict(os.environ, ASAN_OPTIONS="detect_leaks=1:allocator_may_return_null=1", UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1")
    command = [folder / name, corpus, folder / "seeds" / CORPUS_OF[name], f"-max_total_time={seconds}", "-timeout=10",
               "-rss_limit_mb=2048", f"-max_len={MAX_INPUT_BYTES}", f"-artifact_prefix={found}/{name}-", "-print_final_stats=1", "-seed=1"]
    done = subprocess.run([str(c) for c in command], cwd=ROOT, env=env, capture_output=True, text=True, errors="replace")
    executions = re.search(r"number_of_executed_units:\s*(\d+)", done.stderr)
    coverage = re.findall(r"cov: (\d+)", done.stderr)
    print(f"{name}: {executions.group(1) if executions else 0} executions, {coverage[-1] if coverage else 0} edges", flush=True)
    if done.returncode:
        print(done.stderr[-4000:])
    return done.returncode == 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--build", default=str(ROOT / "build" / "fuzz"))
    parser.add_argument("--keep", action="store_true", help="keep what is found, and begin with it")
    args = parser.parse_args()
    folder = pathlib.Path(args.build).resolve()
    why = build(folder)
    if why:
        print("run_fuzz:", why, file=sys.stderr)
        return 2 if why == "no clang" else 1
    shutil.rmtree(folder / "seeds", ignore_errors=True)
    subprocess.run([sys.executable, ROOT / "fuzz" / "make_seeds.py", folder / "seeds"], check=True)
    results = [run_target(folder, name, args.seconds, args.keep) for name in CORPUS_OF]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
