"""Build the wheel: CMake builds the library and the extension module, which holds it.

The module keeps to CPython's limited interface, so one wheel serves Python 3.11 and later. CMake, a C compiler
and, for the webgpu device, build/wgpu with webgpu.h and wgpu-native (tools/setup_wgpu.py) are needed.
"""
import os
import pathlib
import shutil
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent


class build_with_cmake(build_ext):
    def get_ext_filename(self, name):
        return os.path.join(*name.split(".")) + ".abi3.so"

    def build_extension(self, extension):
        folder = pathlib.Path(self.build_temp).resolve() / "cmake"
        options = ["-DCMAKE_BUILD_TYPE=Release", "-DWEFT_MODEL=OFF", "-DWEFT_CLI=OFF", "-DWEFT_TESTS=OFF",
                   f"-DPython3_EXECUTABLE={sys.executable}"]
        if shutil.which("ninja"):
            options.append("-GNinja")
        subprocess.run(["cmake", "-S", SOURCE, "-B", folder, *options], check=True)
        subprocess.run(["cmake", "--build", folder, "--target", "weft-python", "-j", os.environ.get("WEFT_JOBS", str(os.cpu_count() or 1))],
                       check=True)
        target = pathlib.Path(self.get_ext_fullpath(extension.name)).resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / "python" / "weft" / "_weft.abi3.so", target)
        for library in sorted((SOURCE / "build" / "wgpu").glob("libwgpu_native*"))[:1]:  # where webgpu_lib.c looks beside the module
            (target.parent / "weft").mkdir(exist_ok=True)
            shutil.copy(library, target.parent / "weft" / "libwgpu_native.so")
            for text in ("NOTICE", "VERSION", "LICENSE.wgpu-py"):
                shutil.copy(library.parent / text, target.parent / "weft" / text)


setup(ext_modules=[Extension("weft._weft", sources=[], py_limited_api=True)], cmdclass={"build_ext": build_with_cmake},
      options={"bdist_wheel": {"py_limited_api": "cp311"}})
