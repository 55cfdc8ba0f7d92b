"""The tree keeps its order (tools/check_tree.py), and the check sees each kind of disorder."""
import importlib.util
import os
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHECK = ROOT / "tools" / "check_tree.py"
BUILD = os.environ.get("WEFT_BUILD", str(ROOT / "build" / "release"))

spec = importlib.util.spec_from_file_location("check_tree", CHECK)
check_tree = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_tree)


class Tree(unittest.TestCase):
    def test_the_tree_keeps_its_order(self):
        done = subprocess.run([sys.executable, CHECK, "--build", BUILD], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Check(unittest.TestCase):
    def setUp(self):
        check_tree.findings.clear()

    def include(self, name, room, target, bracket='"'):
        where = {"hal.h": "src/device/hal.h", "node.h": "src/core/node.h", "base.h": "src/base/base.h", "mdl.h": "src/model/mdl.h"}
        check_tree.check_include(name, room, 1, bracket, target, where)
        return check_tree.findings

    def test_core_must_not_include_the_device(self):
        self.assertTrue(self.include("src/core/x.c", "core", "hal.h"))

    def test_the_device_must_not_include_core(self):
        self.assertTrue(self.include("src/device/cpu/x.c", "device/cpu", "node.h"))

    def test_the_model_must_not_include_base(self):
        self.assertTrue(self.include("src/model/x.c", "model", "base.h"))

    def test_only_the_webgpu_device_includes_webgpu(self):
        self.assertTrue(self.include("src/runtime/x.c", "runtime", "webgpu.h", "<"))

    def test_what_stands_above_may_be_included(self):
        self.assertFalse(self.include("src/runtime/x.c", "runtime", "node.h"))
        self.assertFalse(self.include("src/model/x.c", "model", "weft/model.h"))

    def test_a_declaration_without_a_comment_is_found(self):
        text = "/* x.h - x */\n\n/* f. */\nWEFT_API int f(void);\nWEFT_API int g(void);\n\nWEFT_API int h(void);\n"
        bare = [block for _, block in check_tree.blocks(text) if check_tree.DECLARATION.search(block) and "/*" not in block]
        self.assertEqual(bare, ["WEFT_API int h(void);"])

    def test_a_name_twice_is_found(self):
        check_tree.check_unique_names(["src/base/a.c", "src/core/a.c", "src/core/b.c"])
        self.assertEqual(len(check_tree.findings), 1)


if __name__ == "__main__":
    unittest.main()
