"""Planted faults (tests/mutants*.json): the list is up to date, and in the long tests each fault is found."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
KERNELS, OPS, COMPILE = (json.loads((ROOT / "tests" / name).read_text()) for name in ("mutants.json", "mutants_ops.json", "mutants_compile.json"))
MUTANTS = KERNELS + OPS + COMPILE
LEAST = 25
LEAST_BY_ORACLE = 40
LEAST_IN_COMPILER = 40


class Mutants(unittest.TestCase):
    def test_the_list_fits_the_sources(self):
        self.assertGreaterEqual(len(KERNELS), LEAST)
        self.assertGreaterEqual(len([m for m in OPS if m["oracle"]]), LEAST_BY_ORACLE)
        self.assertGreaterEqual(len(COMPILE), LEAST_IN_COMPILER)
        self.assertEqual(len({m["id"] for m in MUTANTS}), len(MUTANTS))
        for m in MUTANTS:
            with self.subTest(m["id"]):
                self.assertEqual((ROOT / m["file"]).read_text().count(m["find"]), 1)
                self.assertNotEqual(m["find"], m["replace"])
                for test in m.get("tests", []):
                    self.assertTrue((ROOT / "tests" / (test.split()[0] + ".c")).exists(), test)
                for case in m.get("oracle", []):
                    kind, _, op = case.partition(":")
                    self.assertIn(kind, ("op", "border") if op else ("chain", "promotion", "graphs"), case)

    @unittest.skipUnless(os.environ.get("WEFT_TEST_LONG"), "long")
    def test_each_planted_fault_is_found(self):
        done = subprocess.run([sys.executable, ROOT / "tools" / "mutants.py"], capture_output=True, text=True)
        print(done.stdout, file=sys.stderr)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
