#!/usr/bin/env python3
"""make_seeds.py OUT - seed corpora for the fuzz targets, from the test data: OUT/gguf, OUT/safetensors, OUT/tokenizer."""
import json
import pathlib
import shutil
import struct
import sys

DATA = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data"


def string(s):
    b = s.encode()
    return struct.pack("<Q", len(b)) + b


def key(name, kind, value):
    """One metadata entry; kind is "str", "strs", "i32s" or "f32s"."""
    if kind == "str":
        return string(name) + struct.pack("<I", 8) + string(value)
    element = {"strs": 8, "i32s": 5, "f32s": 6}[kind]
    body = {
        "strs": lambda: b"".join(map(string, value)),
        "i32s": lambda: struct.pack(f"<{len(value)}i", *value),
        "f32s": lambda: struct.pack(f"<{len(value)}f", *value),
    }[kind]()
    return string(name) + struct.pack("<IIQ", 9, element, len(value)) + body


def vocabulary(*entries):
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + b"".join(key("tokenizer.ggml." + e[0], *e[1:]) for e in entries)


def small_vocabularies():
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(0, 256, 5)] + ["▁", "H", "e", "l", "o", "ll", "▁H", "lo", "He"]
    types = [2, 3, 3] + [6] * 52 + [1] * 9
    yield "spm", vocabulary(("model", "str", "llama"), ("tokens", "strs", tokens), ("token_type", "i32s", types),
                            ("scores", "f32s", [-float(i % 7) for i in range(len(tokens))]))
    letters = ["Ġ", "H", "e", "l", "o", "1", "2", "s", "'", "<|e|>"]
    for pre in ("gpt-2", "smollm", "llama-bpe", "qwen2", "default"):
        yield "bpe-" + pre, vocabulary(("model", "str", "gpt2"), ("pre", "str", pre),
                                       ("tokens", "strs", letters + ["He", "ll", "ĠH", "lo", "'s"]),
                                       ("token_type", "i32s", [1] * 9 + [3] + [1] * 5),
                                       ("merges", "strs", ["H e", "l l", "Ġ H", "l o", "' s"]))


def main():
    out = pathlib.Path(sys.argv[1])
    for kind in ("gguf", "safetensors", "tokenizer"):
        (out / kind).mkdir(parents=True, exist_ok=True)
    for path in (DATA / "malformed").iterdir():
        if path.suffix in (".gguf", ".safetensors"):
            shutil.copyfile(path, out / path.suffix[1:] / path.name)
    for name, blob in small_vocabularies():
        (out / "tokenizer" / (name + ".gguf")).write_bytes(blob)
        (out / "gguf" / (name + ".gguf")).write_bytes(blob)
    texts = (DATA / "tokenizers" / "ggml-vocab-gpt-2.gguf.inp").read_text().split("\n__ggml_vocab_test__\n")
    texts += [c["text"] for c in json.loads((DATA / "tokenizers" / "smollm.json").read_text())["cases"]]
    for i, text in enumerate(texts):
        (out / "tokenizer" / f"text{i:03}").write_bytes(text.encode())
    (out / "tokenizer" / "bytes").write_bytes(b"a\xed\xa0\x80\xff\xc3 \xe2\x96\x81\xf0\x9f\xa6")


main()
