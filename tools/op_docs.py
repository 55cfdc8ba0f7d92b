#!/usr/bin/env python3
"""Write docs/ops.md from the table of operations, and docs/conformance.md from what the oracle tests saw.

    op_docs.py [--build DIR] [--check]
    op_docs.py [--build DIR] --conformance FILE.json..

--check writes nothing and ends with 1 when docs/ops.md is not what the table gives. The files of --conformance are added up, device by
device; each comes from a run on this machine or another (the Python package, NumPy, SciPy, ml_dtypes, Hypothesis and pytest are needed):

    cd tests/python && WEFT_BUILD=BUILD WEFT_TEST_DEVICE=webgpu WEFT_ORACLE_EXAMPLES=40 WEFT_CONFORMANCE_OUT=FILE.json python3 -m pytest -q test_oracle.py
"""
import argparse
import json
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

HEAD = """# Operations

Made by `tools/op_docs.py` from the table of operations (`src/core/functions.def`); do not edit. Each is a name for `weft_apply`, a function and method in Python, and, but for
second names of others, a C function `weft_NAME` (documented in `include/weft/ops*.h`; those of `quantize_rows` and `dequantize_rows` are `weft_quantize_to_rows` and
`weft_dequantize_from_rows`). Names, order of arguments, defaults, broadcasting and promotion are
PyTorch's; where one differs its line says so.

The bound is the largest error against exact arithmetic on the stored inputs, element by element: `eps` unit roundoff of the result's dtype (2^-24 for f32, 2^-11
for f16, 2^-8 for bf16, 2^-53 for f64), `S` the magnitude of the exact result, `M` its largest, `X` the largest magnitude of an input, `n` the elements folded into one
of the result, `a b c` the operands, `sum(abs(a))` and its like the operation itself on these operands, `op(abs)` on the magnitudes of all. 0 is exact. f16 and bf16 are computed in f32 and
rounded once. The oracle tests (tests/python) hold each operation to its bound.

## Differences that hold everywhere

- Index results and sums of integers are i32 unless a dtype is asked for (PyTorch: i64): WebGPU has no 64-bit integers.
- Python's integers make i32 tensors, or i64 when they need it (PyTorch: i64).
- u8 with i8 gives i32 (PyTorch: i16, which weft has not); i32 with u32 gives i64; f16 with bf16 gives f32.
- Tensors are values: there are no in-place forms and no `out=`. Assignment to a slice gives the handle a new value.
- Random numbers are Philox, the same on every device, and not PyTorch's.
- Conversion of a float to an integer truncates and saturates, NaN gives 0 (PyTorch: undefined beyond the range).
- A number that the dtype of an integer tensor cannot hold is an error (PyTorch wraps or fails); comparisons and true division take it as it is,
  and `+ - * & | ^` with a negative number and an unsigned tensor wrap. Beside an integer tensor a number beyond 64 bits is Python's OverflowError.
- f16 and bf16 operations that are evaluated as one kernel round at its end; conversions always round, and `WEFT_FUSE=0` rounds each operation.
"""


def package(build):
    sys.path.insert(0, os.path.join(os.path.abspath(build), "python"))
    import weft
    return weft


def cell(text):
    return text.replace("|", "\\|")


def write_ops(table):
    lines, section = [HEAD], None
    for name, part, signature, bound, doc, differentiable, _ in table:
        if part != section:
            section = part
            lines.append(f"\n## {section[:1].upper()}{section[1:]}\n\n| operation | what it computes | bound | gradient |\n|---|---|---|---|")
        lines.append(f"| `{name}({cell(signature)})` | {cell(doc)} | `{cell(bound)}` | {'yes' if differentiable else 'no'} |")
    without = ", ".join(f"`{row[0]}`" for row in table if not row[5])
    lines.append(f"\n## Not differentiable\n\n{without}\n")
    differ = [row for row in table if "PyTorch" in row[4] or "i64" in row[4]]
    lines.append("## Differences from PyTorch\n")
    lines += [f"- `{row[0]}`: {row[4]}" for row in differ]
    return "\n".join(lines) + "\n"


DTYPES = ("float32", "float16", "bfloat16", "float64", "int32", "uint32", "int8", "uint8", "int64", "bool_")


def merged(files):
    """One run for each device: the cases of its files added up, the worst error of all."""
    runs = {}
    for path in files:
        with open(path) as f:
            run = json.load(f)
        name = run["device"]["name"] + ", " + run["device"]["implementation"]
        into = runs.setdefault((run["device"]["spec"].split(":")[0], name), {"spec": run["device"]["spec"], "name": name, "rows": {}, "failed": set(), "fallback": set(), "planned": {}})
        for op, dtype, cases, worst in run["rows"]:
            have = into["rows"].setdefault((op, dtype), [0, None])
            have[0] += cases
            have[1] = have[1] if worst is None else max(have[1] or 0.0, worst)
        into["failed"] |= set(run["failed"])
        into["fallback"] |= set(run["fallback"])
        into["planned"].update({(op, dtype): why for op, dtype, why in run.get("planned", [])})
    return list(runs.values())


def planned_list(run):
    """Operations by reason: {reason: {operation: dtypes}} as lines."""
    reasons = {}
    for (op, dtype), why in run["planned"].items():
        first, _, rest = why.partition(": ")
        why = rest if rest and " " not in first else why  # the part that stays behind, often the operation itself
        reasons.setdefault(why, {}).setdefault(op, []).append(dtype)
    lines = []
    for why, ops in sorted(reasons.items(), key=lambda item: -len(item[1])):
        every = sorted({d for dtypes in ops.values() for d in dtypes})
        lines.append(f"- {why} ({', '.join(every)}): " + ", ".join(f"`{op}`" for op in ops))
    return lines or ["- none"]


def write_conformance(table, files):
    runs = merged(files)
    total = sum(cases for run in runs for cases, _ in run["rows"].values())
    lines = ["# Conformance", "", "Made by `tools/op_docs.py --conformance FILE.json..` from runs of `tests/python/test_oracle.py` (the script says how); do not edit. For each operation and "
             f"dtype of the result: cases that were drawn ({total} in all, views of every kind among them), and the largest error in units in the last place (2 eps at the magnitude of the exact "
             "result; where terms cancel, or results are near zero, many units are within the bound of docs/ops.md). 0 is exact; \"own\" is a "
             "check of the operation's own, since results are not unique or are bounded as a whole: factors are multiplied, draws counted. Several files of one device are added up. Devices:", ""]
    lines += [f"{i + 1}. {run['spec']} ({run['name']}): {sum(c for c, _ in run['rows'].values())} cases" for i, run in enumerate(runs)]
    head = "| operation | dtype |" + "".join(f" {i + 1}: cases | ulps | where |" for i in range(len(runs)))
    lines += ["", head, "|---|---|" + "---|---|---|" * len(runs)]
    for row in table:
        for dtype in DTYPES:
            if not any((row[0], dtype) in run["rows"] for run in runs):
                continue
            line = f"| {row[0]} | {dtype} |"
            for run in runs:
                cases, worst = run["rows"].get((row[0], dtype), (0, 0))
                where = "fall-back" if f"{row[0]} {dtype}" in run["fallback"] else "device"
                line += f" {cases} | {'own' if worst is None else f'{worst:.3g}'} | {where} |" if cases else " - | - | - |"
            lines.append(line)
    failed = [f"{run['name']}: {', '.join(sorted(run['failed']))}" for run in runs if run["failed"]]
    lines += ["", "Fall-back means that at least one case ran a kernel on the CPU for the device. Outside the bound: " + ("; ".join(failed) if failed else "none") + "."]
    for run in runs:
        if run["spec"].startswith("cpu"):
            continue
        lines += ["", f"## Planned fall-back on {run['spec']} ({run['name']})", "", "What `weft_device_supports` answers for the drawn operands, as contiguous tensors: the first part that runs on the "
                  "CPU inside the same plan, and why; the dtypes of the first operand, and the operations.", "", *planned_list(run)]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--conformance", nargs="+", metavar="FILE")
    args = parser.parse_args()
    table = package(args.build).operation_table()
    if args.conformance:
        target, text = "conformance.md", write_conformance(table, args.conformance)
    else:
        target, text = "ops.md", write_ops(table)
    path = os.path.join(ROOT, "docs", target)
    if args.check:
        with open(path) as f:
            if f.read() == text:
                return 0
        print(f"docs/{target} is not up to date: run python3 tools/op_docs.py", file=sys.stderr)
        return 1
    with open(path, "w") as f:
        f.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
