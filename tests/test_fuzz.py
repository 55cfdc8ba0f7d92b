"""Each fuzz target runs for a few seconds from its seeds without a finding (tools/run_fuzz.py)."""
import os
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SECONDS = 60 if os.environ.get("WEFT_TEST_LONG") else 5


class Fuzz(unittest.TestCase):
    def test_readers_and_tokenizer_take_any_bytes(self):
        done = subprocess.run([sys.executable, ROOT / "tools" / "run_fuzz.py", "--seconds", str(SECONDS)], capture_output=True, text=True)
        if done.returncode == 2:
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, 0, done.stdout[-8000:] + done.stderr[-2000:])
        print(done.stdout, file=sys.stderr)
        self.assertEqual(len(done.stdout.strip().splitlines()), len(list((ROOT / "fuzz").glob("fuzz_*.c"))))


if __name__ == "__main__":
    unittest.main()
