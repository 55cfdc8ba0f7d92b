#!/usr/bin/env python3
"""Check WGSL with Tint, the compiler of Dawn and Chromium, without a GPU.

    lint_wgsl.py [--module EXTENSION_MODULE] [-q] FILE_OR_FOLDER...
    lint_wgsl.py --build DIR [-q]     every text that the test programs of a build write

Dawn's Null backend compiles every module and builds its compute pipelines with all features on, f16,
subgroups and subgroup matrices included. Needs the wheels wgpudawn and cffi (build/venv has them). Prints
the compiler's messages as file:line:column and ends with 1 when one is an error, 2 when Dawn is missing.
"""
import argparse
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

NULL_BACKEND = 1  # WGPUBackendType_Null
MODE_EVENTS = 2   # WGPUCallbackMode_AllowProcessEvents
NO_ERROR = 1      # WGPUErrorType_NoError
WRITERS = ["test_wgsl", "test_kernel_table"]  # write their texts to WEFT_WGSL_DIR
VENV_PYTHON = pathlib.Path(__file__).resolve().parent.parent / "build" / "venv" / "bin" / "python3"
SEVERITY = {1: "error", 2: "warning", 3: "note"}


def find_module(path):
    if path:
        return path
    spec = importlib.util.find_spec("wgpudawn")
    found = sorted(pathlib.Path(spec.origin).parent.glob("_lib/_wgpu_dawn*.so")) if spec else []
    if not found:
        raise FileNotFoundError("lint_wgsl: the wheel wgpudawn is not installed")
    return str(found[0])


def load_module(path):
    spec = importlib.util.spec_from_file_location("wgpudawn._lib._wgpu_dawn", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Linter:
    """A device of the Null backend, and the messages of the modules it compiles."""

    def __init__(self, module):
        self.ffi, self.lib = module.ffi, module.lib
        self.keep = []  # what C holds pointers to
        self.instance = self.lib.wgpuCreateInstance(self.instance_descriptor())
        options = self.ffi.new("WGPURequestAdapterOptions *", {"featureLevel": 2, "backendType": NULL_BACKEND})
        self.adapter = self.request("WGPURequestAdapterCallback", "WGPURequestAdapterCallbackInfo",
                                    self.lib.wgpuInstanceRequestAdapter, self.instance, options)
        self.device = self.request("WGPURequestDeviceCallback", "WGPURequestDeviceCallbackInfo",
                                   self.lib.wgpuAdapterRequestDevice, self.adapter, self.device_descriptor())

    def toggles(self, names):
        ffi = self.ffi
        strings = [ffi.new("char[]", name) for name in names]
        array = ffi.new("char *[]", strings)
        chain = ffi.new("WGPUDawnTogglesDescriptor *")
        chain.chain.sType = self.lib.WGPUSType_DawnTogglesDescriptor
        chain.enabledToggleCount = len(names)
        chain.enabledToggles = ffi.cast(ffi.typeof(chain.enabledToggles), array)
        self.keep += [strings, array, chain]
        return ffi.addressof(chain, "chain")

    def instance_descriptor(self):
        descriptor = self.ffi.new("WGPUInstanceDescriptor *")
        try:  # subgroup matrices are behind this one
            descriptor.nextInChain = self.toggles([b"allow_unsafe_apis"])
        except (AttributeError, self.ffi.error):
            pass
        self.keep.append(descriptor)
        return descriptor

    def device_descriptor(self):
        ffi = self.ffi
        features = ffi.new("WGPUSupportedFeatures *")
        self.lib.wgpuAdapterGetFeatures(self.adapter, features)
        limits = ffi.new("WGPULimits *")
        self.lib.wgpuAdapterGetLimits(self.adapter, limits)
        descriptor = ffi.new("WGPUDeviceDescriptor *")
        descriptor.requiredFeatureCount = features.featureCount
        descriptor.requiredFeatures = features.features
        descriptor.requiredLimits = limits
        self.keep += [features, limits, descriptor]
        return descriptor

    def text(self, view):
        if view.data == self.ffi.NULL:
            return ""
        n = view.length
        raw = self.ffi.string(view.data) if n > 1 << 40 else self.ffi.unpack(view.data, n)
        return raw.decode("utf-8", "replace")

    def call(self, callback_type, info_type, start, on_result):
        """Start an asynchronous call and run events until its callback came."""
        done = []

        def callback(*args):
            on_result(*args[:-2])
            done.append(True)

        pointer = self.ffi.callback(self.ffi.typeof(callback_type), callback)
        info = self.ffi.new(info_type + " *", {"mode": MODE_EVENTS, "callback": pointer})
        start(info[0])
        for _ in range(100000):
            if done:
                return
            self.lib.wgpuInstanceProcessEvents(self.instance)
        raise RuntimeError("lint_wgsl: Dawn does not answer")

    def request(self, callback_type, info_type, function, owner, descriptor):
        result = []
        self.call(callback_type, info_type, lambda info: function(owner, descriptor, info),
                  lambda status, handle, message: result.extend([status, handle, self.text(message)]))
        if result[0] != 1 or result[1] == self.ffi.NULL:
            raise RuntimeError("lint_wgsl: " + (result[2] or "no Null backend"))
        return result[1]

    def scoped(self, make):
        """Run make() and return (its result, the validation message or None)."""
        seen = []
        self.lib.wgpuDevicePushErrorScope(self.device, 1)
        made = make()
        self.call("WGPUPopErrorScopeCallback", "WGPUPopErrorScopeCallbackInfo",
                  lambda info: self.lib.wgpuDevicePopErrorScope(self.device, info),
                  lambda status, kind, message: seen.append(None if kind == NO_ERROR else self.text(message)))
        return made, seen[0]

    def messages(self, shader):
        out = []

        def collect(_status, info):
            for i in range(info.messageCount):
                m = info.messages[i]
                out.append((SEVERITY.get(int(m.type), "note"), int(m.lineNum), int(m.linePos), self.text(m.message)))

        self.call("WGPUCompilationInfoCallback", "WGPUCompilationInfoCallbackInfo",
                  lambda info: self.lib.wgpuShaderModuleGetCompilationInfo(shader, info), collect)
        return out

    def view(self, text):
        data = self.ffi.new("char[]", text)
        self.keep.append(data)
        return {"data": data, "length": len(text)}

    def lint(self, source):
        """Messages (severity, line, column, text) of one module and its compute entry points."""
        kept = len(self.keep)
        raw = source.encode()
        code = self.ffi.new("WGPUShaderSourceWGSL *")
        code.chain.sType = self.lib.WGPUSType_ShaderSourceWGSL
        code.code = self.view(raw)
        descriptor = self.ffi.new("WGPUShaderModuleDescriptor *")
        descriptor.nextInChain = self.ffi.addressof(code, "chain")
        shader, failure = self.scoped(lambda: self.lib.wgpuDeviceCreateShaderModule(self.device, descriptor))
        found = self.messages(shader)
        if failure and not any(severity == "error" for severity, *_ in found):
            found.append(("error", 0, 0, failure))
        if not failure:
            for entry in re.findall(r"@compute\b[^{]*?\bfn\s+(\w+)", source):
                failure = self.pipeline(shader, entry.encode())
                if failure:
                    found.append(("error", 0, 0, failure))
        self.lib.wgpuShaderModuleRelease(shader)
        del self.keep[kept:]
        return found

    def pipeline(self, shader, entry):
        descriptor = self.ffi.new("WGPUComputePipelineDescriptor *")
        descriptor.compute.module = shader
        descriptor.compute.entryPoint = self.view(entry)
        made, failure = self.scoped(lambda: self.lib.wgpuDeviceCreateComputePipeline(self.device, descriptor))
        if made != self.ffi.NULL:
            self.lib.wgpuComputePipelineRelease(made)
        return failure


def files_of(paths):
    for path in map(pathlib.Path, paths):
        yield from sorted(path.rglob("*.wgsl")) if path.is_dir() else [path]


def write_texts(build):
    """Folders with the texts of a build's test programs."""
    folders = []
    for name in WRITERS:
        program, folder = pathlib.Path(build) / name, pathlib.Path(build) / "wgsl" / name
        if not program.exists():
            raise RuntimeError(f"lint_wgsl: {program} is not built")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        done = subprocess.run([program], env={**os.environ, "WEFT_WGSL_DIR": str(folder)}, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"lint_wgsl: {program} fails:\n{done.stdout}{done.stderr}")
        folders.append(folder)
    return folders


def main():
    parser = argparse.ArgumentParser(description="Check WGSL with Tint.")
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--build", help="a build folder whose test programs write the texts to check")
    parser.add_argument("--module", help="the extension module _wgpu_dawn of the wheel wgpudawn")
    parser.add_argument("-q", "--quiet", action="store_true", help="print errors only")
    args = parser.parse_args()
    if not args.module and not importlib.util.find_spec("wgpudawn") and VENV_PYTHON.exists():
        if pathlib.Path(sys.prefix) != VENV_PYTHON.parent.parent:
            os.execv(VENV_PYTHON, [str(VENV_PYTHON), *sys.argv])
    try:
        linter = Linter(load_module(find_module(args.module)))
        paths = args.paths + (write_texts(args.build) if args.build else [])
    except (ImportError, OSError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 2
    n_files = n_errors = 0
    for path in files_of(paths):
        n_files += 1
        for severity, line, column, message in linter.lint(path.read_text()):
            n_errors += severity == "error"
            if severity == "error" or not args.quiet:
                print(f"{path}:{line}:{column}: {severity}: {message}")
    print(f"lint_wgsl: {n_files} files, {n_errors} errors")
    return 1 if n_errors or not n_files else 0


if __name__ == "__main__":
    sys.exit(main())
