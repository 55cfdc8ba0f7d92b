#!/usr/bin/env python3
"""Run the weft program, or a test, on Dawn.

    dawn.py ARGS...                      the weft program with these arguments
    dawn.py --exec PROGRAM.so [ARGS...]  a shared object that exports int weft_main(int, char **)
    dawn.py --setup                      only prepare the virtual environment

The wheel `wgpudawn` exports nothing to C, but in Python it knows the address of its wgpuGetProcAddress.
That address goes into WEFT_WEBGPU_PROC and weft_main is called in this process. The wheel lives in a
virtual environment of the build folder, made on the first run.

Environment: WEFT_MAIN_LIB (default: libweft-main.so of build/release), WEFT_BUILD_DIR (default: build).
Exit code: that of weft_main; 77 when Dawn cannot be had (a test counts it as skipped).
"""
import ctypes
import os
import subprocess
import sys

PACKAGES = ["wgpudawn==0.32.0.4", "cffi"]
ABSENT = 77
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("WEFT_BUILD_DIR") or os.path.join(ROOT, "build")
VENV = os.path.join(BUILD, "venv")


def absent(why):
    print(f"dawn.py: {why}", file=sys.stderr)
    sys.exit(ABSENT)


def run(command):
    return subprocess.run(command, capture_output=True, text=True)


def venv_python():
    """The environment's Python, with the wheel installed."""
    python = os.path.join(VENV, "bin", "python3")
    if not os.path.exists(python):
        os.makedirs(BUILD, exist_ok=True)
        r = run([sys.executable, "-m", "venv", VENV])
        if r.returncode != 0:
            absent(f"no virtual environment in {VENV}: {(r.stderr or r.stdout).strip().splitlines()[-1:]}")
    if run([python, "-c", "import wgpudawn._lib"]).returncode != 0:
        print(f"dawn.py: installing {' '.join(PACKAGES)} into {VENV}", file=sys.stderr, flush=True)
        r = run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES])
        if r.returncode != 0:
            absent(f"pip install of {PACKAGES[0]} failed: {(r.stderr.strip().splitlines() or ['no answer'])[-1]}")
    return python


def enter_venv():
    """Become the environment's Python; returns there only."""
    if os.environ.get("WEFT_DAWN_VENV") == VENV:
        return
    python = venv_python()
    env = dict(os.environ, WEFT_DAWN_VENV=VENV)
    os.execve(python, [python, os.path.abspath(__file__), *sys.argv[1:]], env)


def export_dawn():
    """Give the C side the address and the name of Dawn. Returns the module: it keeps Dawn loaded."""
    import wgpudawn._lib as dawn

    address = int(dawn.ffi.cast("uintptr_t", dawn.ffi.addressof(dawn.lib, "wgpuGetProcAddress")))
    os.environ["WEFT_WEBGPU_PROC"] = f"{address:x}"
    os.environ["WEFT_WEBGPU_NAME"] = f"Dawn {dawn.dawn_version}"
    return dawn


def offer_swiftshader():
    """Add SwiftShader to the system's Vulkan drivers when the build folder has it: Dawn refuses lavapipe."""
    driver = os.path.join(BUILD, "swiftshader", "vk_swiftshader_icd.json")
    if os.path.exists(driver):
        os.environ.setdefault("VK_ADD_DRIVER_FILES", os.path.abspath(driver))


def call_main(path, name, args):
    try:
        program = ctypes.CDLL(path)
        weft_main = program.weft_main
    except (OSError, AttributeError) as e:
        print(f"dawn.py: {e}", file=sys.stderr)
        return 1
    weft_main.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]
    weft_main.restype = ctypes.c_int
    argv = [os.fsencode(a) for a in [name, *args]]
    return weft_main(len(argv), (ctypes.c_char_p * (len(argv) + 1))(*argv, None))


def main():
    args = sys.argv[1:]
    enter_venv()
    if args[:1] == ["--setup"]:
        return 0
    path, name = os.environ.get("WEFT_MAIN_LIB") or os.path.join(BUILD, "release", "libweft-main.so"), "weft"
    if args[:1] == ["--exec"]:
        if len(args) < 2:
            print("dawn.py: --exec needs a shared object", file=sys.stderr)
            return 2
        path = name = args[1]
        args = args[2:]
    offer_swiftshader()
    dawn = export_dawn()
    code = call_main(os.path.abspath(path), name, args)
    sys.stdout.flush()
    del dawn
    return code


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).fflush(None)
    os._exit(code & 0xFF)  # Python's own exit would unload modules under Dawn's threads
