#!/usr/bin/env python3
"""The oracle tests with new seeds until interrupted: make fuzz-ops [OPS="softmax conv2d"] [FUZZ_S=seconds].

A failure prints its short program and goes on; a program worth keeping goes into tests/regressions/ with the
values it should print as an assertion.
"""
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    only, seconds = sys.argv[1:], float(os.environ.get("FUZZ_S", "inf"))
    begin, seed, failed = time.time(), int(os.environ.get("WEFT_ORACLE_SEED", str(time.time_ns() % 2**31))), 0
    while time.time() - begin < seconds:
        seed += 1
        env = dict(os.environ, WEFT_ORACLE_SEED=str(seed), WEFT_ORACLE_EXAMPLES=os.environ.get("WEFT_ORACLE_EXAMPLES", "100"))
        select = ["-k", " or ".join(f"test_op and {name}" for name in only)] if only else ["-k", "test_op"]
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", f"--hypothesis-seed={seed}", *select,
                               os.path.join(HERE, "test_oracle.py")], capture_output=True, text=True, env=env)
        failed += done.returncode != 0
        print(f"seed {seed}: {done.stdout.strip().splitlines()[-1]}", flush=True)
        if done.returncode:
            print(done.stdout, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
