#!/usr/bin/env python3
"""The oracle tests with new seeds, and random graphs between them (graph_fuzz.py), until interrupted: make fuzz [OPS="softmax conv2d"]
[DEVICE=cpu] [FUZZ_S=seconds]. With OPS only the oracle tests of these.

A failure is printed as a short program and kept in tests/regressions/found_OPERATION_SEED.py with what the reference gives; the fuzzing
goes on. Fix the kind, give the program a name that says what it shows, and it stays as a test.
"""
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
KEPT = HERE.parent / "regressions"
FILES = ("test_oracle.py", "test_chain.py")
GRAPHS_S = 120


def run(seed, only):
    """(exit status, output) of one seed."""
    env = dict(os.environ, WEFT_ORACLE_SEED=str(seed), WEFT_ORACLE_EXAMPLES=os.environ.get("WEFT_ORACLE_EXAMPLES", "100"), WEFT_KEEP_FAILURES=str(KEPT))
    names = " or ".join(f"test_op[{name}] or test_border[{name}]" for name in only)
    cases = ["-k", names] if only else ["-k", "test_op or test_border or test_chain"]
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", f"--hypothesis-seed={seed}", *cases,
                           *FILES], cwd=HERE, capture_output=True, text=True, env=env)
    return done.returncode, done.stdout + done.stderr


def run_graphs(seed):
    """Random graphs for a while; what it finds it prints and keeps."""
    names = "cpu,one-thread,unfused" if os.environ.get("WEFT_TEST_DEVICE", "cpu") == "cpu" else "webgpu,webgpu-unfused,webgpu-scarce"
    command = [sys.executable, HERE / "graph_fuzz.py", "--seed", str(seed * 100000 % 2**31), "--seconds", str(GRAPHS_S), "--configurations", names]
    return subprocess.run(command, cwd=HERE).returncode


def main():
    only, seconds = sys.argv[1:], float(os.environ.get("FUZZ_S", "inf"))
    begin, seed, failed = time.time(), int(os.environ.get("WEFT_ORACLE_SEED", str(time.time_ns() % 2**31))), 0
    while time.time() - begin < seconds:
        seed += 1
        status, output = run(seed, only)
        failed += status != 0
        print(f"seed {seed}: {output.strip().splitlines()[-1]}", flush=True)
        if status:
            print(output, flush=True)
        if status > 1:
            return 2
        if not only:
            failed += run_graphs(seed) != 0
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
