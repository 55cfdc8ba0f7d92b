"""WGSL texts compile with Tint (through Dawn's Null backend), and the lint sees what does not.

WEFT_BUILD names the build folder whose test programs write the texts.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINT = [sys.executable, str(ROOT / "tools" / "lint_wgsl.py")]
BUILD = os.environ.get("WEFT_BUILD", str(ROOT / "build" / "release"))


def lint(*args):
    done = subprocess.run([*LINT, *map(str, args)], capture_output=True, text=True)
    if done.returncode == 2:
        raise unittest.SkipTest(done.stderr.strip())
    return done


class Lint(unittest.TestCase):
    def test_every_generated_and_hand_written_kernel_compiles(self):
        done = lint("-q", "--build", BUILD)
        self.assertEqual(done.returncode, 0, done.stdout[-4000:])

    def check_source(self, source, code, message=""):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "one.wgsl"
            path.write_text(source)
            done = lint(path)
        self.assertEqual(done.returncode, code, done.stdout)
        self.assertIn(message, done.stdout)

    def test_f16_and_subgroups_are_on(self):
        self.check_source("enable f16;\nenable subgroups;\n"
                          "@group(0) @binding(0) var<storage, read_write> a: array<f16>;\n"
                          "@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) i: u32) {\n"
                          "    a[i] = subgroupAdd(a[i]);\n}\n", 0)

    def test_an_infinite_constant_is_an_error(self):
        self.check_source("fn f() -> f32 { return bitcast<f32>(0x7f800000u); }\n", 1, "one.wgsl:1:24: error")

    def test_a_barrier_in_divergent_flow_is_an_error(self):
        self.check_source("@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) i: u32) {\n"
                          "    if (i < 32u) { workgroupBarrier(); }\n}\n", 1, "uniform control flow")

    def test_too_much_workgroup_memory_is_an_error(self):
        self.check_source("var<workgroup> w: array<u32, 60000>;\n"
                          "@compute @workgroup_size(1) fn main() { w[0] = 1u; }\n", 1, "storage")


if __name__ == "__main__":
    unittest.main()
