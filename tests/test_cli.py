"""The weft program from outside: what it prints, what it returns, and that a small trained model gives
the reference's words. Only the standard library is used.

WEFT_PROGRAM names the program (default: the first of build/*/weft), WEFT_TEST_DEVICES the devices to run
models on (default: cpu). Test names are the claims they check."""
import array
import glob
import json
import math
import os
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DEVICES = os.environ.get("WEFT_TEST_DEVICES", "cpu").split()


def find_program():
    named = os.environ.get("WEFT_PROGRAM")
    if named:
        return os.path.abspath(named)
    for pattern in ("build/release/weft", "build/*/weft", "build/weft", "build/*/bin/weft", "build/bin/weft"):
        for path in sorted(glob.glob(os.path.join(ROOT, pattern))):
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return path
    return None


WEFT = find_program()


def data(name):
    """A file of the small story model, wherever the tree keeps it; skips the test when it is absent."""
    for folder in ("tests/data/stories260k", "models/stories260k"):
        path = os.path.join(ROOT, folder, name)
        if os.path.exists(path):
            return path
    raise unittest.SkipTest(name + " is not in the tree")


def weft(*args, code=0, text=True, timeout=300):
    env = {"WEFT_CACHE_DIR": "", **os.environ, "WEFT_LOG": "off"}  # what earlier runs kept must not answer for this one
    p = subprocess.run([WEFT, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env,
                       timeout=timeout)
    if code is not None and p.returncode != code:
        raise AssertionError("weft %s returned %d, expected %s: %s" % (args, p.returncode, code, p.stderr.decode(errors="replace")))
    return p.stdout.decode() if text else p.stdout, p.stderr.decode(errors="replace")


def weft_json(*args, **kw):
    return json.loads(weft(*args, "--json", **kw)[0])


def read_npy(path):
    with open(path, "rb") as f:
        raw = f.read()
    assert raw[:6] == b"\x93NUMPY"
    n = struct.unpack("<H", raw[8:10])[0] if raw[6] == 1 else struct.unpack("<I", raw[8:12])[0]
    start = (10 if raw[6] == 1 else 12) + n
    header = eval(raw[start - n:start].decode(), {"__builtins__": {}}, {"False": False, "True": True})
    assert header["descr"] == "<f4" and not header["fortran_order"], header
    values = array.array("f")
    values.frombytes(raw[start:])
    rows, cols = header["shape"]
    return [values[i * cols:(i + 1) * cols] for i in range(rows)]


def largest_difference(a, b):
    assert len(a) == len(b) and len(a[0]) == len(b[0]), (len(a), len(b))
    return max(abs(x - y) for r, s in zip(a, b) for x, y in zip(r, s))


def contents(path):
    with open(path, "rb") as f:
        return f.read()


def reference(name="ref.json"):
    return json.loads(contents(data(name)))


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    def path(self, name):
        return os.path.join(self.dir.name, name)

    def write(self, name, content):
        with open(self.path(name), "wb") as f:
            f.write(content)
        return self.path(name)

    def random_model(self, name="random.gguf", **options):
        path = self.path(name)
        if not os.path.exists(path):
            args = [x for k, v in options.items() for x in ("--" + k.replace("_", "-"), str(v))]
            weft("make-model", path, *args)
        return path

    def assert_fails(self, *args, codes=(1, 2), says=()):
        """One line on standard error that begins with "weft: ", and nothing on standard output."""
        env = dict(os.environ, WEFT_LOG="off")
        p = subprocess.run([WEFT, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, timeout=120)
        err = p.stderr.decode(errors="replace")
        self.assertIn(p.returncode, codes, (args, err))
        self.assertEqual(p.stdout, b"", args)
        self.assertEqual(err.count("\n"), 1, err)
        self.assertTrue(err.startswith("weft: "), err)
        for word in says:
            self.assertIn(word, err)
        return err


class Usage(Case):
    def test_version_is_printed(self):
        self.assertRegex(weft("--version")[0], r"^weft \d+\.\d+\.\d+\n$")

    def test_help_lists_the_commands(self):
        out = weft("--help")[0]
        for name in ("run", "score", "explain", "tune", "tokenize", "info", "devices", "bench", "make-model"):
            self.assertIn("  " + name, out)

    def test_each_command_has_help(self):
        for name in ("run", "score", "tokenize", "info", "devices", "bench", "make-model"):
            out = weft(name, "--help")[0]
            self.assertTrue(out.startswith("usage: weft " + name), out)
            self.assertEqual(out, weft("help", name)[0])

    def test_no_command_is_wrong_usage(self):
        self.assertIn("usage", weft(code=2)[1])

    def test_unknown_words_are_wrong_usage(self):
        self.assert_fails("fly", codes=(2,), says=["fly"])
        self.assert_fails("run", codes=(2,))
        self.assert_fails("run", "a", "b", codes=(2,), says=["b"])
        self.assert_fails("run", "a", "--frob", codes=(2,), says=["--frob"])
        self.assert_fails("run", "a", "-n", codes=(2,), says=["-n"])
        self.assert_fails("bench", "nosuch", codes=(2,), says=["nosuch", "softmax"])

    def test_numbers_outside_their_range_are_wrong_usage(self):
        for args in (("-n", "-1"), ("-n", "x"), ("-n", "99999999999999999999"), ("--temp", "nan"), ("--temp", "-1"), ("--temp", "inf"),
                     ("--top-p", "1.5"), ("--min-p", "-0.1"), ("--top-k", "-2"), ("--repeat-penalty", "nan"), ("--seed", "-3"),
                     ("--ctx", "-5"), ("--threads", "-1"), ("--act", "int3")):
            self.assert_fails("run", "nothing.gguf", *args, codes=(1, 2), says=[args[0]])


class BadInput(Case):
    def test_files_that_are_no_model_give_one_line(self):
        good = contents(data("stories260K.F32.gguf"))
        files = {"empty.gguf": b"", "text.gguf": b"once upon a time\n" * 50, "random.gguf": bytes((i * 197 + i // 7) % 256 for i in range(5000)),
                 "short.gguf": good[:200], "cut.gguf": good[:len(good) // 2]}
        for name, content in files.items():
            path = self.write(name, content)
            for command in (("run", path), ("score", path, "-p", "a"), ("info", path), ("tokenize", path, "-p", "a")):
                self.assert_fails(*command, codes=(1,))
        self.assert_fails("run", self.path("absent.gguf"), codes=(1,), says=["absent.gguf"])

    def test_an_unknown_architecture_is_named_with_those_known(self):
        good = contents(data("stories260K.F32.gguf"))
        key = b"general.architecture" + struct.pack("<IQ", 8, 5)
        self.assertIn(key + b"llama", good)
        path = self.write("arch.gguf", good.replace(key + b"llama", key + b"zebra"))
        self.assert_fails("run", path, "--device", "cpu", codes=(1,), says=["zebra", "llama"])

    def test_a_missing_tensor_is_named(self):
        good = contents(data("stories260K.F32.gguf"))
        path = self.write("missing.gguf", good.replace(b"blk.2.ffn_up.weight", b"blk.2.ffn_no.weight"))
        self.assert_fails("run", path, "--device", "cpu", codes=(1,), says=["blk.2.ffn_up.weight", "missing"])

    def test_a_tensor_without_a_place_is_named_and_counted(self):
        good = contents(data("stories260K.F32.gguf"))
        path = self.write("extra.gguf", good.replace(b"llama.block_count" + struct.pack("<II", 4, 5), b"llama.block_count" + struct.pack("<II", 4, 4)))
        self.assertNotEqual(contents(path), good)
        self.assert_fails("run", path, "--device", "cpu", codes=(1,), says=["blk.4.", "4 layers", "9 of 47"])

    def test_tensors_beside_the_named_ones_of_a_safetensors_model(self):
        raw = contents(data("model.safetensors"))
        n = struct.unpack("<Q", raw[:8])[0]
        header = json.loads(raw[8:8 + n])
        end = max(t["data_offsets"][1] for name, t in header.items() if name != "__metadata__")

        def model_with(*names):
            h = dict(header)
            for i, name in enumerate(names):
                h[name] = {"dtype": "F32", "shape": [4], "data_offsets": [end + 16 * i, end + 16 * i + 16]}
            text = json.dumps(h).encode()
            path = self.write("beside.safetensors", struct.pack("<Q", len(text)) + text + raw[8 + n:] + b"\0" * 16 * len(names))
            return "score", path, "--config", data("config.json"), "--tokenizer", data("stories260K.F32.gguf"), "-p", "Once", "--device", "cpu"

        self.assert_fails(*model_with("model.layers.1.mlp.up_proj.bias", "model.layers.0.self_attn.q_norm.weight"), codes=(1,),
                          says=["layers.1.mlp.up_proj.bias", "2 of 49"])
        weft(*model_with("model.layers.0.self_attn.rotary_emb.inv_freq"))

    def test_a_wrong_shape_is_named_with_the_numbers(self):
        good = contents(data("stories260K.F32.gguf"))
        key = b"llama.feed_forward_length" + struct.pack("<I", 4)
        path = self.write("shape.gguf", good.replace(key + struct.pack("<I", 172), key + struct.pack("<I", 171)))
        self.assert_fails("run", path, "--device", "cpu", codes=(1,), says=["ffn_gate", "172", "171"])

    def test_an_unknown_device_is_named(self):
        self.assert_fails("run", data("stories260K.F32.gguf"), "--device", "toaster", says=["toaster"])

    def test_a_prompt_longer_than_the_context_says_both_numbers(self):
        err = self.assert_fails("run", data("stories260K.F32.gguf"), "--device", "cpu", "--ctx", "8", "-p", "the cat sat on the mat " * 3, codes=(1,))
        self.assertRegex(err, r"has \d+ tokens.* holds 8")

    def test_a_bad_number_of_threads_is_named(self):
        for value in ("many", "0", "4x"):
            os.environ["WEFT_THREADS"] = value
            try:
                self.assert_fails("run", data("stories260K.F32.gguf"), "--device", "cpu", "-p", "a", codes=(1,), says=["WEFT_THREADS", value])
            finally:
                del os.environ["WEFT_THREADS"]

    def test_an_unknown_suite_is_named_with_those_known(self):
        self.assert_fails("bench", "juggling", codes=(2,), says=["juggling", "copy elementwise", "decode"])

    def test_a_failed_make_model_leaves_what_was_there(self):
        path = self.write("kept.gguf", b"before")
        limit = lambda: (signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000)))
        p = subprocess.run([WEFT, "make-model", path], stderr=subprocess.PIPE, preexec_fn=limit)
        self.assertEqual(p.returncode, 1)
        self.assertIn(b"File too large", p.stderr)
        self.assertEqual(contents(path), b"before")
        self.assertEqual(glob.glob(path + "*"), [path])
        if os.path.exists("/dev/full"):
            self.assert_fails("make-model", "/dev/full", codes=(1,), says=["No space left"])
            self.assertTrue(os.path.exists("/dev/full"))

    def test_what_a_killed_make_model_left_goes_with_the_next_one(self):
        path = os.path.join(self.dir.name, "big.gguf")
        p = subprocess.Popen([WEFT, "make-model", path, "--layers", "64", "--width", "1024"], stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while not glob.glob(path + ".*.part") and time.monotonic() < end and p.poll() is None:
            time.sleep(0.001)
        p.kill()
        p.wait()
        left = glob.glob(path + ".*.part")
        self.assertEqual(len(left), 1, "it was killed while it wrote")
        alive, other = f"{path}.{os.getpid()}-0.part", path + ".7-x.part"  # of a writer that lives, and no name of ours
        for name in (alive, other):
            open(name, "w").close()
        subprocess.run([WEFT, "make-model", path], check=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.assertEqual(sorted(glob.glob(path + "*")), sorted([path, alive, other]))

    def test_one_new_token_has_no_speed(self):
        p = subprocess.run([WEFT, "run", data("stories260K.F32.gguf"), "--device", "cpu", "-p", "Once", "-n", "1", "--temp", "0"], capture_output=True, text=True)
        self.assertEqual(p.returncode, 0, p.stderr)
        self.assertIn("generation  1 tokens, - tokens/s", p.stderr)
        p = subprocess.run([WEFT, "run", data("stories260K.F32.gguf"), "--device", "cpu", "-p", "Once", "-n", "1", "--temp", "0", "--json"], capture_output=True, text=True)
        self.assertIsNone(json.loads(p.stdout)["timings"]["tokens_per_s"])

    def test_an_invalid_utf8_prompt_gives_one_line(self):
        self.assert_fails("run", data("stories260K.F32.gguf"), "-p", b"abc\xff", codes=(1, 2), says=["UTF-8"])
        path = self.write("prompt", b"fine \xed\xa0\x80")
        self.assert_fails("run", data("stories260K.F32.gguf"), "--prompt-file", path, codes=(1, 2), says=["UTF-8"])

    def test_a_file_without_a_tokenizer_asks_for_one(self):
        path = self.random_model("novocab.gguf", layers=1, width=32, heads=2, ffn=64, vocab=100)
        self.assert_fails("run", path, "--device", "cpu", "-p", "a", codes=(1,), says=["--tokenizer"])


class Story(Case):
    """The trained model of 260 thousand parameters, against values computed in f64."""

    def greedy(self, model, device, *extra):
        ref = reference()
        for case in ref["greedy"]:
            out = weft_json("run", model, "-p", case["prompt"], "-n", "200", "--temp", "0", "--device", device, *extra)
            self.assertEqual(out["prompt_ids"], case["prompt_ids"])
            self.assertEqual(out["ids"], case["greedy_ids"], case["prompt"])
            self.assertEqual(out["text"], case["text"])
            self.assertEqual(case["prompt"] + out["continuation"], case["text"])

    def score(self, model, device, logits, tolerance, mean, *extra):
        ref = reference()
        path = self.path("logits.npy")
        out = weft_json("score", model, "-p", ref["text"], "--device", device, "--logits", path, *extra)
        self.assertEqual(out["ids"], ref["ids"])
        self.assertEqual(len(out["nll"]), len(ref["ids"]) - 1)
        self.assertLess(largest_difference(read_npy(path), read_npy(data(logits))), tolerance)
        self.assertLess(abs(out["mean_nll"] - mean), 1e-4)
        self.assertLess(abs(sum(out["nll"]) / len(out["nll"]) - out["mean_nll"]), 1e-5)

    def test_f32_gguf_gives_the_reference_texts(self):
        for device in DEVICES:
            with self.subTest(device=device):
                self.greedy(data("stories260K.F32.gguf"), device)

    def test_safetensors_gives_the_reference_texts(self):
        for device in DEVICES:
            with self.subTest(device=device):
                self.greedy(data("model.safetensors"), device, "--tokenizer", data("stories260K.F32.gguf"))

    def test_taps_show_values_inside_the_model(self):
        for device in DEVICES:
            logits, out = self.path("logits.npy"), self.path("taps")
            os.makedirs(out, exist_ok=True)
            call = ("score", data("stories260K.F32.gguf"), "-p", "Once upon a time", "--device", device, "--logits", logits)
            plain = weft_json(*call)
            tapped = weft_json(*call, "--tap", "*", "--tap-dir", out)
            self.assertLess(max(abs(a - b) for a, b in zip(plain["nll"], tapped["nll"])), 1e-5)
            names = {f[:-4] for f in os.listdir(out)}
            self.assertTrue({"embed", "blk.0.attn_norm", "blk.0.q", "blk.4.attn", "blk.4.ffn_out", "blk.4.out", "norm", "logits"} <= names)
            self.assertEqual(largest_difference(read_npy(os.path.join(out, "logits.npy")), read_npy(logits)), 0)
            _, said = weft("score", data("stories260K.F32.gguf"), "-p", "Once", "--device", device, "--tap", "nothing", code=1)
            self.assertIn("blk.N.", said)

    def test_logits_agree_with_the_reference(self):
        ref = reference()
        means = {t: v["mean_nll"] for t, v in ref["quantised"].items()}
        means["F32"] = ref["mean_nll"]
        for device in DEVICES:
            for kind, tolerance in (("F32", 1e-4), ("F16", 1e-3), ("Q8_0", 1e-3), ("Q4_0", 1e-3)):
                with self.subTest(device=device, type=kind):
                    name = "ref_logits.npy" if kind == "F32" else "ref_logits_%s.npy" % kind
                    self.score(data("stories260K.%s.gguf" % kind), device, name, tolerance, means[kind])

    def test_text_streams_after_the_echoed_prompt(self):
        case = reference()["greedy"][1]
        out, err = weft("run", data("stories260K.F32.gguf"), "-p", case["prompt"], "-n", "20", "--temp", "0", "--device", "cpu")
        self.assertTrue(out.startswith(case["prompt"]))
        self.assertTrue(case["text"].startswith(out.rstrip("\n")))
        for word in ("device", "load", "prompt", "generation", "memory", "tokens/s"):
            self.assertIn(word, err)

    def test_tokenize_agrees_with_the_reference(self):
        ref = reference("tok_ref.json")
        vectors = ref["vectors"] if isinstance(ref, dict) and "vectors" in ref else ref
        for v in vectors if isinstance(vectors, list) else []:
            if isinstance(v, dict) and "\0" not in v.get("text", "\0"):
                self.assertEqual(weft_json("tokenize", data("stories260K.F32.gguf"), "-p", v["text"])["ids"], v["ids"], v["text"])

    def test_control_tokens_are_recognised_where_asked(self):
        model = data("stories260K.F32.gguf")
        self.assertNotIn(2, weft_json("tokenize", model, "-p", "a</s>b")["ids"])
        self.assertIn(2, weft_json("tokenize", model, "-p", "a</s>b", "--special")["ids"])
        self.assertIn(2, weft_json("score", model, "-p", "a</s>b", "--device", "cpu")["ids"])

    def test_one_seed_gives_one_text_and_another_seed_another(self):
        args = ("run", data("stories260K.F32.gguf"), "-p", "Once", "-n", "40", "--temp", "1", "--top-k", "0", "--device", "cpu")
        first = weft_json(*args, "--seed", "7")["ids"]
        self.assertEqual(first, weft_json(*args, "--seed", "7")["ids"])
        self.assertNotEqual(first, weft_json(*args, "--seed", "8")["ids"])

    def test_filters_that_leave_one_candidate_are_greedy(self):
        base = ("run", data("stories260K.F32.gguf"), "-p", "Once", "-n", "30", "--device", "cpu")
        greedy = weft_json(*base, "--temp", "0")["ids"]
        for extra in (("--top-k", "1"), ("--top-k", "0", "--top-p", "0.000001"), ("--top-k", "50", "--min-p", "1")):
            self.assertEqual(weft_json(*base, "--temp", "1", *extra)["ids"], greedy, extra)

    def test_a_penalty_changes_the_text_the_same_way_for_any_candidate_count(self):
        base = ("run", data("stories260K.F32.gguf"), "-p", "The big red dog", "-n", "60", "--device", "cpu", "--repeat-penalty", "1.3")
        few = weft_json(*base, "--temp", "0")["ids"]
        self.assertNotEqual(few, weft_json(*base[:-2], "--temp", "0")["ids"])
        self.assertEqual(few, weft_json(*base, "--temp", "1", "--top-k", "1")["ids"])
        self.assertEqual(few, weft_json(*base, "--temp", "1", "--top-k", "0", "--top-p", "0.000001")["ids"])

    def test_a_seed_of_64_bits_is_printed_exactly(self):
        args = ("run", data("stories260K.F32.gguf"), "-p", "Once", "-n", "1", "--device", "cpu", "--seed")
        self.assertEqual(weft_json(*args, str(2 ** 63 - 1))["seed"], 2 ** 63 - 1)
        self.assertEqual(weft_json(*args, str(2 ** 64 - 1))["seed"], str(2 ** 64 - 1))

    def test_n_zero_runs_the_prompt_only(self):
        out = weft_json("run", data("stories260K.F32.gguf"), "-p", "Once upon a time", "-n", "0", "--device", "cpu")
        self.assertEqual((out["ids"], out["text"]), ([], "Once upon a time"))

    def test_a_full_context_ends_the_generation(self):
        out = weft_json("run", data("stories260K.F32.gguf"), "-p", "Once upon a time", "-n", "100", "--ctx", "16", "--temp", "0", "--device", "cpu")
        self.assertEqual(len(out["prompt_ids"]) + len(out["ids"]), 17)

    def test_decoding_uploads_a_step_and_reads_back_a_token(self):
        args = ("run", data("stories260K.F32.gguf"), "-p", "Once upon a time", "--temp", "0", "--ctx", "128", "--device", "cpu")
        a, b = (weft_json(*args, "-n", str(n))["stats"] for n in (20, 60))
        self.assertEqual(b["plans_built"], a["plans_built"])
        self.assertEqual(b["buffers_created"], a["buffers_created"])
        self.assertEqual(b["bytes_down"] - a["bytes_down"], 40 * 4)
        self.assertLessEqual(b["bytes_up"] - a["bytes_up"], 40 * 4096)


class OddSizes(Case):
    """48 wide, 6 query and 2 key heads, FFN 100, vocabulary 331, half of each head turns."""

    def tensors(self, path):
        info = weft_json("info", path)
        raw = contents(path)
        out = {}
        for t in info["tensors"]:
            n = 1
            for d in t["shape"]:
                n *= d
            self.assertEqual(t["type"], "F32")
            values = struct.unpack("<%df" % n, raw[t["offset"]:t["offset"] + 4 * n])
            cols = t["shape"][-1]
            out[t["name"]] = [values[i:i + cols] for i in range(0, n, cols)] if len(t["shape"]) == 2 else values
        return out

    def forward(self, w, ids, heads, kv_heads, rope_dim, layers):
        def norm(x, g):
            s = 1 / math.sqrt(sum(v * v for v in x) / len(x) + 1e-5)
            return [v * s * k for v, k in zip(x, g)]

        def times(m, x):
            return [sum(a * b for a, b in zip(row, x)) for row in m]

        def turn(x, n, pos):
            d = len(x) // n
            for h in range(n):
                for i in range(rope_dim // 2):
                    a, k = pos * 10000.0 ** (-2 * i / rope_dim), h * d + 2 * i
                    x[k], x[k + 1] = x[k] * math.cos(a) - x[k + 1] * math.sin(a), x[k] * math.sin(a) + x[k + 1] * math.cos(a)
            return x

        xs = [list(w["token_embd.weight"][i]) for i in ids]
        for layer in range(layers):
            def g(name):
                return w["blk.%d.%s.weight" % (layer, name)]
            hs = [norm(x, g("attn_norm")) for x in xs]
            qs = [turn(times(g("attn_q"), h), heads, t) for t, h in enumerate(hs)]
            ks = [turn(times(g("attn_k"), h), kv_heads, t) for t, h in enumerate(hs)]
            vs = [times(g("attn_v"), h) for h in hs]
            d = len(qs[0]) // heads
            for t, x in enumerate(xs):
                mixed = []
                for h in range(heads):
                    at = h // (heads // kv_heads) * d
                    e = [math.exp(sum(qs[t][h * d + i] * ks[u][at + i] for i in range(d)) / math.sqrt(d)) for u in range(t + 1)]
                    mixed += [sum(e[u] * vs[u][at + i] for u in range(t + 1)) / sum(e) for i in range(d)]
                x = [a + b for a, b in zip(x, times(g("attn_output"), mixed))]
                h = norm(x, g("ffn_norm"))
                f = [u * v / (1 + math.exp(-u)) for u, v in zip(times(g("ffn_gate"), h), times(g("ffn_up"), h))]
                xs[t] = [a + b for a, b in zip(x, times(g("ffn_down"), f))]
        return [times(w["token_embd.weight"], norm(x, w["output_norm.weight"])) for x in xs]

    def test_logits_agree_with_a_forward_in_f64(self):
        path = self.random_model("odd.gguf", layers=2, width=48, heads=6, kv_heads=2, ffn=100, vocab=331, rope_dim=4, type="f32", seed=5)
        for device in DEVICES:
            with self.subTest(device=device):
                npy = self.path("odd.npy")
                ids = weft_json("score", path, "-p", "ab c w12", "--logits", npy, "--device", device)["ids"]
                want = self.forward(self.tensors(path), ids, 6, 2, 4, 2)
                self.assertLess(largest_difference(read_npy(npy), want), 1e-4)

    def test_the_same_seed_makes_the_same_file(self):
        a = self.random_model("a.gguf", width=64, heads=4, vocab=300, type="q8_0", seed=3)
        b = self.random_model("b.gguf", width=64, heads=4, vocab=300, type="q8_0", seed=3)
        c = self.random_model("c.gguf", width=64, heads=4, vocab=300, type="q8_0", seed=4)
        read = [contents(p) for p in (a, b, c)]
        self.assertEqual(read[0], read[1])
        self.assertNotEqual(read[0], read[2])

    def test_every_type_runs_and_streams_whole_utf8(self):
        for kind in ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1"):
            path = self.random_model(kind + ".gguf", layers=1, width=64, heads=4, kv_heads=2, ffn=96, vocab=400, type=kind)
            args = ("run", path, "-p", "h\u00e9", "-n", "40", "--temp", "2", "--top-k", "0", "--top-p", "1", "--seed", "1", "--device", "cpu")
            out = weft_json(*args)
            raw = weft(*args, text=False)[0]
            self.assertEqual(raw.decode(errors="replace").rstrip("\n"), out["text"])


class Reports(Case):
    def test_info_lists_metadata_tensors_types_and_sizes(self):
        out = weft_json("info", data("stories260K.F32.gguf"))
        self.assertEqual(out["metadata"]["llama.embedding_length"], 64)
        self.assertEqual(sum(t["bytes"] for t in out["tensors"]), out["tensor_bytes"])
        self.assertEqual(sum(t["tensors"] for t in out["types"].values()), out["n_tensors"])
        self.assertIn("token_embd.weight", weft("info", data("stories260K.F32.gguf"))[0])

    def test_devices_have_the_cpu_and_a_reason_for_each_feature_that_is_off(self):
        out = weft_json("devices")
        specs = [d["spec"] for d in out["devices"]]
        self.assertEqual(specs[0], "cpu")
        self.assertIn("null", specs)
        for d in out["devices"]:
            for f in d["features"]:
                self.assertTrue(f["on"] or f["reason"], (d["spec"], f))

    def test_texts_are_kept_in_the_users_cache_folder(self):
        model = data("stories260K.F32.gguf")
        with tempfile.TemporaryDirectory() as home:
            env = {k: v for k, v in os.environ.items() if k not in ("WEFT_CACHE_DIR", "XDG_CACHE_HOME")}
            for extra, folder in (({"HOME": home}, ".cache/weft"), ({"HOME": home, "XDG_CACHE_HOME": home + "/xdg"}, "xdg/weft"),
                                  ({"HOME": home, "WEFT_CACHE_DIR": home + "/own"}, "own"), ({"HOME": home + "/unused", "WEFT_CACHE_DIR": ""}, None)):
                devices = json.loads(subprocess.run([WEFT, "devices", "--json"], env={**env, **extra}, capture_output=True, check=True).stdout)
                self.assertEqual(devices["cache"], os.path.join(home, folder) if folder else "")
                subprocess.run([WEFT, "explain", model, "--device", "null"], env={**env, **extra}, capture_output=True, check=True)
                if folder:
                    self.assertGreater(len(os.listdir(os.path.join(home, folder))), 3)
            self.assertFalse(os.path.exists(home + "/unused"))

    def test_tune_names_the_row_of_each_kind_of_kernel(self):
        out = weft_json("tune", data("stories260K.F32.gguf"), "--device", "cpu", "--repeats", "1", "--budget", "100")
        self.assertTrue(out["complete"])
        self.assertGreater(out["measured"], 0)
        for kernel in out["kernels"]:
            rows = {row["row"]: row.get("us", 0) for row in kernel["rows"]}
            self.assertIn(kernel["usual"], rows)
            self.assertGreater(rows[kernel["row"]], 0)
            self.assertGreater(kernel["kernels"], 0)
        self.assertIn("kinds of kernels with a choice", weft("tune", data("stories260K.F32.gguf"), "--device", "null", "--repeats", "1")[0])

    def test_bench_rows_have_value_limit_share_and_samples(self):
        out = weft_json("bench", "softmax", "--filter", "rms_norm", "--device", "cpu")
        self.assertEqual(set(out), {"machine", "limits", "rows"})
        self.assertEqual(set(out["limits"]), {"read", "copy", "triad", "fma"})
        for row in out["rows"]:
            self.assertEqual(set(row), {"name", "device", "value", "unit", "limit", "share", "samples"})
            self.assertGreater(row["value"], 0)
            self.assertAlmostEqual(row["share"], row["value"] / row["limit"], 6)

    def test_an_interrupt_prints_what_there_is(self):
        path = self.random_model("slow.gguf", layers=8, width=512, heads=8, ffn=1024, vocab=2000)
        p = subprocess.Popen([WEFT, "run", path, "-p", "ab", "-n", "100000", "--ctx", "100100", "--temp", "1", "--seed", "2", "--device", "cpu"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        first = p.stdout.read(8)
        time.sleep(0.3)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=60)
        self.assertTrue(first.startswith(b"ab"))
        self.assertEqual(p.returncode, 1)
        self.assertIn(b"cancelled", err)
        self.assertIn(b"generation", err)


if __name__ == "__main__":
    if not WEFT:
        sys.exit("test_cli: no weft program found; build it or set WEFT_PROGRAM")
    unittest.main(verbosity=2)
