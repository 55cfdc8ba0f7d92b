"""The whole SmolLM2-135M file against reference values computed in f64: a long test.

WEFT_SMOLLM2 names the file (default: the one that `make run MODEL=smollm2` fetches)."""
import glob
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import test_cli
from test_cli import DEVICES, ROOT, Case, contents, read_npy, weft_json

import json


def model_file():
    named = os.environ.get("WEFT_SMOLLM2")
    found = [named] if named else sorted(glob.glob(os.path.join(ROOT, "build", "**", "SmolLM2-135M*.gguf"), recursive=True))
    return found[0] if found else None


@unittest.skipUnless(model_file(), "the SmolLM2-135M file is not here (make run MODEL=smollm2 fetches it)")
class SmolLM2(Case):
    def cases(self):
        return json.loads(contents(os.path.join(ROOT, "tests/data/smollm2-135m/ref.json")))["cases"]

    def test_greedy_text_is_the_reference(self):
        for device in DEVICES:
            for case in self.cases():
                with self.subTest(device=device, prompt=case["prompt"][-40:]):
                    n = len(case["greedy_ids"])
                    out = weft_json("run", model_file(), "-p", case["prompt"], "-n", str(n), "--temp", "0", "--device", device)
                    self.assertEqual(out["prompt_ids"], case["ids"])
                    # A tie closer than the noise of f32 may fall either way.
                    sure = next((i for i, gap in enumerate(case["top2_gaps"]) if gap < 1e-3), n)
                    self.assertEqual(out["ids"][:sure], case["greedy_ids"][:sure])

    def test_logits_agree_with_the_reference(self):
        for device in DEVICES:
            for case in self.cases():
                with self.subTest(device=device, prompt=case["prompt"][-40:]):
                    path = self.path("logits.npy")
                    out = weft_json("score", model_file(), "-p", case["prompt"], "--device", device, "--logits", path)
                    last = read_npy(path)[-1]
                    for got, want in zip(last, case["logits_first64_last_pos"]):
                        self.assertLess(abs(got - want), 2e-4)
                    for token, want in case["last_top10"]:
                        self.assertLess(abs(last[token] - want), 2e-4)
                    self.assertLess(abs(out["mean_nll"] - case["mean_nll_of_prompt"]), 1e-4)


if __name__ == "__main__":
    if not test_cli.WEFT:
        sys.exit("test_smollm2: no weft program found; build it or set WEFT_PROGRAM")
    unittest.main(verbosity=2)
