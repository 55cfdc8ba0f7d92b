#!/usr/bin/env python3
"""Make BUILD_DIR/venv with the Python packages that tests and tools use, pinned. Idempotent.

    setup_venv.py BUILD_DIR

numpy, scipy, ml_dtypes, hypothesis and pytest are the oracle tests (tests/python), jax one oracle more; wgpudawn
and cffi give Dawn (the WGSL lint, tools/dawn.py). When one cannot be had one line says so and the exit code is 0:
what needs it is then skipped, with the reason.
"""
import os
import subprocess
import sys

PACKAGES = ["numpy==2.2.6", "cffi>=1.17", "wgpudawn==0.32.0.4", "scipy==1.17.1", "ml_dtypes==0.6.0", "hypothesis==6.170.17", "pytest==9.2.0"]
OPTIONAL = ["jax==0.10.2", "mypy==2.4.1"]  # the tests work without


def main():
    venv = os.path.join(sys.argv[1], "venv")
    python = os.path.join(venv, "bin", "python3")
    stamp = os.path.join(venv, "packages")
    want = "\n".join(PACKAGES + OPTIONAL)
    if os.path.exists(stamp) and open(stamp).read() == want:
        return 0
    print("setup: making", venv, "with", ", ".join(PACKAGES + OPTIONAL), flush=True)
    try:
        if not os.path.exists(python):
            subprocess.run([sys.executable, "-m", "venv", venv], check=True, capture_output=True, text=True)
        for package in PACKAGES + OPTIONAL:
            done = subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", package],
                                  capture_output=True, text=True)
            if done.returncode:
                lines = done.stderr.strip().splitlines()
                print(f"setup: {package} could not be installed: {lines[-1] if lines else 'pip failed'}", file=sys.stderr)
                if package not in OPTIONAL:
                    return 0
    except (OSError, subprocess.CalledProcessError) as error:
        print("setup: no Python environment:", error, file=sys.stderr)
        return 0
    with open(stamp, "w") as f:
        f.write(want)
    return 0


if __name__ == "__main__":
    sys.exit(main())
