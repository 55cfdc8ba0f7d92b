"""A generated Q4_0 file of 100 million parameters runs in little more than its tensors.

Peak memory (resident set on the CPU, device bytes on webgpu) is at most 1.15 x the file's tensors + the KV
cache + 64 MiB. WEFT_PROGRAM names the program. WEFT_TEST_LONG=1 gives webgpu a prompt of many tokens too.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

BUILD = os.environ.get("WEFT_BUILD", "build/release")
PROGRAM = os.environ.get("WEFT_PROGRAM", os.path.join(BUILD, "weft"))
LAYERS, WIDTH, HEADS, FFN, VOCAB, CONTEXT = 12, 768, 12, 2048, 20000, 256
KV_BYTES = 2 * LAYERS * CONTEXT * WIDTH * 4
PROMPT = "A long prompt runs through the kernels of many rows. " * 4


def run(*args):
    """(exit code, standard output, standard error, peak resident bytes) of the program."""
    process = subprocess.Popen([PROGRAM, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, err = process.stdout.read(), process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    process.stderr.close()
    return process.returncode, out, err, usage.ru_maxrss * 1024


class Memory(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(dir=BUILD)
        cls.model = os.path.join(cls.folder.name, "100m.gguf")
        code, _, err, _ = run("make-model", cls.model, "--layers", str(LAYERS), "--width", str(WIDTH), "--heads", str(HEADS),
                              "--ffn", str(FFN), "--vocab", str(VOCAB), "--context", str(CONTEXT), "--type", "q4_0")
        if code:
            raise RuntimeError(err)
        info = json.loads(run("info", cls.model, "--json")[1])
        cls.tensor_bytes = info["tensor_bytes"]
        assert info["n_params"] > 99e6, info["n_params"]
        cls.limit = 1.15 * cls.tensor_bytes + KV_BYTES + (64 << 20)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def generate(self, device, prompt, n):
        code, out, err, resident = run("run", self.model, "--device", device, "-p", prompt, "-n", str(n), "--temp", "0",
                                       "--ctx", str(CONTEXT), "--json")
        if code and device == "webgpu":
            if "webgpu" in os.environ.get("WEFT_REQUIRE", ""):
                self.fail(err)
            self.skipTest("webgpu: " + err.strip())
        self.assertEqual(code, 0, err)
        result = json.loads(out)
        print(f"{device}: resident {resident >> 20} MiB, device {result['stats']['bytes_peak'] >> 20} MiB, "
              f"tensors {self.tensor_bytes >> 20} MiB, limit {int(self.limit) >> 20} MiB", file=sys.stderr)
        return result, resident

    @unittest.skipIf(os.environ.get("WEFT_SANITIZER"), "a sanitizer's own memory counts too")
    def test_resident_set_on_the_cpu(self):
        result, resident = self.generate("cpu", PROMPT, 3)
        self.assertGreater(len(result["prompt_ids"]), 64)
        self.assertLessEqual(resident, self.limit)
        self.assertLessEqual(result["stats"]["bytes_peak"], self.limit)

    def test_device_bytes_on_webgpu(self):
        if os.environ.get("WEFT_SANITIZER") == "thread":
            self.skipTest("the thread sanitizer runs the CPU parts")
        result, _ = self.generate("webgpu", PROMPT if os.environ.get("WEFT_TEST_LONG") else "", 2)
        self.assertLessEqual(result["stats"]["bytes_peak"], self.limit)
        self.assertEqual(result["stats"]["cpu_programs"], 0)


if __name__ == "__main__":
    unittest.main()
