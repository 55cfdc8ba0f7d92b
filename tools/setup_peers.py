#!/usr/bin/env python3
"""Put the libraries that only `make bench` compares with into BUILD_DIR/peers/python, pinned. Idempotent.

    setup_peers.py BUILD_DIR

bench/bench_ops.py looks there behind the packages of BUILD_DIR/venv. When they cannot be had one line says so and the
exit code is 0: the rows are then measured without them.
"""
import os
import subprocess
import sys

# without what they depend on: numpy and ml_dtypes are those of the environment
PACKAGES = ["onnxruntime==1.32.0", "onnx==1.23.2", "flatbuffers==25.12.19", "protobuf==7.36.2", "packaging==26.4", "typing_extensions==4.16.0"]


def main():
    folder = os.path.join(sys.argv[1], "peers", "python")
    stamp = os.path.join(folder, "packages")
    want = "\n".join(PACKAGES)
    if os.path.exists(stamp) and open(stamp).read() == want:
        return 0
    print("setup: fetching", ", ".join(PACKAGES), "into", folder, flush=True)
    done = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--upgrade", "--target",
                           folder, *PACKAGES], capture_output=True, text=True)
    if done.returncode:
        print("setup: no onnxruntime:", (done.stderr.strip().splitlines() or ["pip failed"])[-1], file=sys.stderr)
        return 0
    with open(stamp, "w") as f:
        f.write(want)
    return 0


if __name__ == "__main__":
    sys.exit(main())
