"""On Dawn (tools/dawn.py): the story model continues its prompt as the reference does, and evaluation works.

Dawn refuses lavapipe, so without a GPU this runs on SwiftShader, which tools/setup_swiftshader.sh gets.
WEFT_TEST_LONG=1 adds the op tests and every row of the kernel table.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("WEFT_BUILD", ROOT / "build" / "release"))
STORY = ROOT / "models" / "stories260k" / "stories260K.F32.gguf"
REFERENCE = ROOT / "tests" / "data" / "stories260k" / "ref.json"
NO_DAWN = 77


def dawn(*args, seconds=300, **extra):
    env = dict(os.environ, **extra, WEFT_TEST_DEVICE="webgpu", WEFT_MAIN_LIB=str(BUILD / "libweft-main.so"), WEFT_REQUIRE="")
    if "lvp_icd" in env.get("VK_ICD_FILENAMES", ""):
        del env["VK_ICD_FILENAMES"]
    done = subprocess.run([sys.executable, ROOT / "tools" / "dawn.py", *map(str, args)], capture_output=True, text=True,
                          errors="replace", env=env, timeout=seconds)
    lines = done.stderr.strip().splitlines() or [""]
    if done.returncode == NO_DAWN or "offers no adapter" in done.stderr:
        if "dawn" in os.environ.get("WEFT_REQUIRE", ""):
            raise AssertionError(lines[-1])
        raise unittest.SkipTest("dawn: " + lines[-1])
    return done


class Dawn(unittest.TestCase):
    def test_the_story_model_gives_the_reference_tokens(self):
        case = json.loads(REFERENCE.read_text())["greedy"][1]
        n = 24
        done = dawn("run", STORY, "--device", "webgpu", "--temp", "0", "-n", n, "-p", case["prompt"], "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual(result["ids"], case["greedy_ids"][:n])
        self.assertIn("Dawn", result["device"]["implementation"])
        self.assertEqual(result["stats"]["cpu_programs"], 0)

    def test_compiled_pipelines_are_kept_between_processes(self):
        case = json.loads(REFERENCE.read_text())["greedy"][1]

        def run(folder):
            done = dawn("run", STORY, "--device", "webgpu", "--temp", "0", "-n", 2, "-p", case["prompt"], "--json", WEFT_CACHE_DIR=folder, WEFT_LOG="warn")
            self.assertEqual(done.returncode, 0, done.stderr)
            result = json.loads(done.stdout)
            self.assertEqual(result["ids"], case["greedy_ids"][:2])
            return result["stats"], [line for line in done.stderr.splitlines() if line.startswith("weft: warn: cache")]

        with tempfile.TemporaryDirectory() as folder:
            first, lines = run(folder)
            self.assertGreater(first["cache_stored"], first["texts_generated"])  # texts and pipelines
            self.assertEqual(lines, [])
            kept = sorted(pathlib.Path(folder).iterdir())
            self.assertEqual(len(kept), first["cache_stored"])
            second, lines = run(folder)
            self.assertEqual((second["texts_generated"], second["cache_stored"], second["cache_refused"], lines), (0, 0, 0, []))
            for number, path in enumerate(kept):  # one byte of every file, each elsewhere
                data = bytearray(path.read_bytes())
                data[number * 7919 % len(data)] ^= 0x40
                path.write_bytes(data)
            third, lines = run(folder)
            self.assertEqual((third["texts_generated"], third["cache_stored"]), (first["texts_generated"], first["cache_stored"]))
            self.assertGreaterEqual(third["cache_refused"], len(kept))
            self.assertEqual(len(lines), 1, lines)
            last, lines = run(folder)
            self.assertEqual((last["texts_generated"], last["cache_stored"], lines), (0, 0, []))

    def run_test_program(self, name):
        program = BUILD / f"dawn_{name}.so"
        if not program.exists():
            self.skipTest(f"{program.name} is not built")
        done = dawn("--exec", program, seconds=3000)
        self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-4000:])
        self.assertIn("[       OK ]", done.stdout)

    def test_evaluation(self):
        self.run_test_program("test_runtime")

    @unittest.skipUnless(os.environ.get("WEFT_TEST_LONG"), "long")
    def test_every_op(self):
        self.run_test_program("test_ops")

    @unittest.skipUnless(os.environ.get("WEFT_TEST_LONG"), "long")
    def test_every_kernel_row(self):
        self.run_test_program("test_kernel_webgpu")


if __name__ == "__main__":
    unittest.main()
