#!/usr/bin/env python3
"""Run the test programs of a build and count their tests.

    run_tests.py --build DIR [--long] [--sanitizer NAME] [--only SUBSTRING] [--skip SUBSTRING] [--jobs N]

Each line of the plan below is one program with one environment. A program that cannot run here is a
skip with its reason; with WEFT_REQUIRE=webgpu,tint a skip is a failure. Tests on
webgpu use Mesa's lavapipe unless VK_ICD_FILENAMES names another driver. The last line is
"N passed, N failed, N skipped"; what is left to make test-long ("skip: long") is counted apart.
"""
import argparse
import glob
import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Limits lowered to the WebGPU minimums (limits table of the specification, 16 KiB and 256 its defaults).
LOWERED = {"WEFT_LIMITS": "binding=134217728,buffers=8,workgroup_bytes=16384,invocations=256"}

# Far lower than any device, so that small tensors are larger than a binding and are cut.
TINY = {"WEFT_LIMITS": "binding=16384,buffers=8,workgroup_bytes=16384,invocations=256"}

# program, environment, needs, seconds allowed. Programs without a line here run once on the CPU.
PLAN = [
    ("test_runtime", {"WEFT_TEST_DEVICE": "webgpu"}, "webgpu", 300),
    ("test_runtime", {"WEFT_TEST_DEVICE": "webgpu", **LOWERED}, "webgpu", 300),
    ("test_ops", {"WEFT_TEST_DEVICE": "webgpu"}, "webgpu", 900),
    ("test_ops", {"WEFT_TEST_DEVICE": "webgpu", **LOWERED}, "webgpu", 900),
    ("test_graphs", {"WEFT_TEST_DEVICE": "webgpu"}, "webgpu", 600),
    ("test_async", {"WEFT_TEST_DEVICE": "webgpu"}, "webgpu", 300),
    ("test_scale", {"WEFT_TEST_DEVICE": "webgpu"}, "webgpu", 300),
    ("test_text_cache", {"WEFT_TEST_DEVICE": "webgpu"}, "webgpu", 300),
    ("test_warm", {"WEFT_TEST_DEVICE": "webgpu"}, "webgpu", 300),
    ("test_plan_key", {"WEFT_TEST_DEVICE": "webgpu"}, "webgpu", 300),
    *((f"test_{name}", {"WEFT_TEST_DEVICE": "webgpu"}, "webgpu", 300) for name in (
        "fusion", "check", "tap", "networks", "convolution", "algebra", "quantised", "random", "indexing", "reduction", "shape", "creation", "pointwise", "long_lines")),
    ("test_limits", {"WEFT_TEST_DEVICE": "webgpu"}, "webgpu", 300),
    *((f"test_{name}", {"WEFT_TEST_DEVICE": "webgpu", **TINY}, "webgpu", 300) for name in (
        "graphs", "fusion", "check", "pointwise", "random", "creation", "quantised")),
    ("test_faults", {"WEFT_TEST_DEVICE": "webgpu"}, "webgpu", 600),
    ("test_faults", {"WEFT_TEST_DEVICE": "webgpu", **LOWERED}, "webgpu", 600),
]
# Programs that open webgpu themselves.
NEEDS = {"test_webgpu_device": "webgpu", "test_webgpu_adopt": "webgpu", "test_kernel_webgpu": "webgpu", "test_wgsl_run": "webgpu"}
# These measure times: nothing runs beside them.
ALONE = {"test_step", "test_scale", "test_webgpu_device", "test_async"}
# Python tests: path, environment, needs, long only, seconds allowed.
PYTHON = [
    ("tests/test_tree.py", {}, "", False, 300),
    ("tests/test_cli.py", {"WEFT_TEST_DEVICES": "cpu"}, "", False, 600),
    ("tests/test_cli.py", {"WEFT_TEST_DEVICES": "webgpu"}, "webgpu", False, 900),
    ("tests/test_embed.py", {}, "", False, 600),
    ("tests/test_lint.py", {}, "tint", False, 300),
    ("tests/test_dawn.py", {}, "tint", False, 6000),
    ("tests/test_fuzz.py", {}, "clang", False, 600),
    ("tests/test_memory.py", {}, "", False, 300),
    ("tests/test_smollm2.py", {}, "", True, 1800),
    ("tests/test_mutants.py", {}, "", False, 7200),
]
# Tests of the Python package, by pytest: path, environment, needs, long only, seconds allowed.
PYTEST = [
    ("tests/python/test_package.py", {}, "pytest", False, 600),
    ("tests/python/test_package.py", {"WEFT_TEST_DEVICE": "webgpu"}, "webgpu", False, 900),
    ("tests/python/test_index.py", {}, "pytest", False, 300),
    ("tests/python/test_sharing.py", {}, "pytest", False, 300),
    ("tests/python/test_handles.py", {}, "pytest", False, 600),
    ("tests/python/test_bad_input.py", {"WEFT_ORACLE_EXAMPLES": "16"}, "pytest", False, 900),
    ("tests/python/test_bad_input.py", {"WEFT_TEST_DEVICE": "webgpu", "WEFT_ORACLE_EXAMPLES": "16"}, "webgpu", True, 1800),
    ("tests/python/test_bad_input.py", {"WEFT_ORACLE_EXAMPLES": "240"}, "pytest", True, 7200),
    ("tests/python/test_dawn_package.py", {}, "pytest", False, 400),
    ("tests/python/test_draws.py", {}, "pytest", False, 300),
    ("tests/python/test_docs.py", {}, "pytest", False, 300),
    ("tests/python/test_regressions.py", {}, "pytest", False, 300),
    ("tests/python/test_regressions.py", {"WEFT_TEST_DEVICE": "webgpu"}, "webgpu", False, 600),
    ("tests/python/test_promotion.py", {}, "pytest", False, 300),
    ("tests/python/test_chain.py", {"WEFT_ORACLE_EXAMPLES": "20"}, "pytest", False, 600),
    ("tests/python/test_graphs.py", {"WEFT_GRAPHS": "600"}, "pytest", False, 900),
    ("tests/python/test_graphs.py", {"WEFT_TEST_DEVICE": "webgpu", "WEFT_GRAPHS": "20"}, "webgpu", False, 900),
    ("tests/python/test_graphs.py", {"WEFT_GRAPHS": "10000"}, "pytest", True, 7200),
    ("tests/python/test_graphs.py", {"WEFT_TEST_DEVICE": "webgpu", "WEFT_GRAPHS": "400"}, "webgpu", True, 7200),
    ("tests/python/test_second.py", {"WEFT_ORACLE_EXAMPLES": "8"}, "pytest", False, 900),
    ("tests/python/test_second.py", {"WEFT_ORACLE_EXAMPLES": "200"}, "pytest", True, 3600),
    ("tests/python/test_oracle.py", {"WEFT_ORACLE_EXAMPLES": "20"}, "pytest", False, 1800),
    ("tests/python/test_oracle.py", {"WEFT_TEST_DEVICE": "webgpu", "WEFT_ORACLE_EXAMPLES": "3"}, "webgpu", False, 1800),
    ("tests/python/test_oracle.py", {"WEFT_ORACLE_EXAMPLES": "400"}, "pytest", True, 7200),
]


LOCK = threading.Lock()


class Counts:
    passed = failed = skipped = left = 0  # left: to make test-long
    skips = []
    failures = []


def capabilities(build, env):
    """What this machine has, and for each thing that is missing, why."""
    missing = {}
    program = os.path.join(build, "weft")
    done = subprocess.run([program, "devices"], capture_output=True, text=True, env=env) if os.path.exists(program) else None
    if not done or "webgpu:0" not in done.stdout:
        said = [line for line in (done.stdout + "\n" + done.stderr).splitlines() if "webgpu" in line.lower()] if done else []
        reason = said[-1].strip() if said else "no WebGPU adapter"
        missing["webgpu"] = reason
    python = os.path.join(ROOT, "build", "venv", "bin", "python3")
    probe = "import wgpudawn, cffi"
    if not os.path.exists(python) or subprocess.run([python, "-c", probe], capture_output=True).returncode:
        missing["tint"] = "build/venv has no wgpudawn"
    if subprocess.run(["sh", "-c", "command -v clang"], capture_output=True).returncode:
        missing["clang"] = "no clang"
    return missing


def count_cmocka(out, err):
    """(passed, names of failed tests, reasons of skipped ones): one line a test on standard output. A reason is
    the line "skip: .." that a test prints."""
    passed, failed, skipped, reason = 0, [], [], ""
    for line in out.splitlines():
        mark = re.match(r"\[ *(RUN|OK|FAILED|ERROR|SKIPPED) *\] (.+)$", line)
        if line.lower().startswith(("skip: ", "skip ")):
            reason = line[5:].strip()
        elif mark and mark.group(1) == "RUN":
            reason = ""
        elif mark and mark.group(1) == "OK":
            passed += 1
        elif mark and mark.group(1) == "SKIPPED":
            skipped.append(f"{mark.group(2)}: {reason or 'no reason given'}")
        elif mark:
            failed.append(mark.group(2))
    return passed, failed, skipped


def count_unittest(out, err):
    text = out + err
    match = re.search(r"^Ran (\d+) tests?", text, re.M)
    if not match:
        return 0, ["did not run"], []
    failed = re.findall(r"^(?:FAIL|ERROR): (\S+)", text, re.M)
    skipped = [": ".join(found) for found in re.findall(r"^(\w+) .*\.\.\. skipped '(.*)'$", text, re.M)]
    return max(int(match.group(1)) - len(failed) - len(skipped), 0), failed, skipped


def count_pytest(out, err):
    """The last line of pytest -q -rsf: "1 failed, 54 passed, 2 skipped in 54.52s"."""
    found = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|skipped|errors?)\b", out.strip().splitlines()[-1] if out.strip() else "")}
    if not found:
        return 0, ["did not run"], []
    failed = re.findall(r"^(?:FAILED|ERROR) \S+::(\S+)", out, re.M) or ["?"] * (found.get("failed", 0) + found.get("error", 0) + found.get("errors", 0))
    skipped = [reason for n, reason in re.findall(r"^SKIPPED \[(\d+)\] \S+ (.*)$", out, re.M) for _ in range(int(n))]
    return found.get("passed", 0), failed, skipped


def execute(command, env, seconds):
    """(standard output, standard error, exit code); what the command started ends with it."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", env=env,
                               cwd=ROOT, start_new_session=True)
    try:
        out, err = process.communicate(timeout=seconds)
        return out, err, process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        return out, err + f"\nran longer than {seconds} s", -1


def run_one(label, command, env, seconds, counter):
    begin = time.time()
    out, err, code = execute(command, env, seconds)
    with LOCK:
        report(label, out, err, code, counter, time.time() - begin)


def report(label, out, err, code, counter, seconds):
    passed, failed, skipped = counter(out, err)
    if code and not failed:
        failed = [f"exit code {code}"]
    left = [line for line in skipped if re.search(r"(^|: )long\b", line)]
    skipped = [line for line in skipped if line not in left]
    Counts.passed += passed
    Counts.failed += len(failed)
    Counts.skipped += len(skipped)
    Counts.left += len(left)
    Counts.skips += [f"{label}: {line}" for line in skipped]
    for line in out.splitlines():
        if line.startswith("cells: "): # where the operations really ran
            print(f"     {label}: {line}")
    print(f"{'FAIL' if failed else 'ok  '} {label:58} {passed:5} passed {len(failed):3} failed {len(skipped):3} skipped {seconds:7.1f} s",
          flush=True)
    if failed:
        Counts.failures.append((label, failed))
        print("\n".join("    " + line for line in (out + "\n" + err).strip().splitlines()[-40:]), flush=True)


def preload_for_leaks(icd):
    """LD_PRELOAD under AddressSanitizer: the Vulkan driver stays loaded, so that what it still holds at exit
    carries its name and tests/sanitizers/lsan.txt applies. The sanitizer itself has to come first."""
    done = subprocess.run(["cc", "-print-file-name=libasan.so"], capture_output=True, text=True)
    try:
        with open(icd) as f:
            driver = json.load(f)["ICD"]["library_path"]
    except (OSError, ValueError, KeyError):
        return ""
    return done.stdout.strip() + " " + driver


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--sanitizer", default="")
    parser.add_argument("--only", default="")
    parser.add_argument("--skip", action="append", default=[], metavar="SUBSTRING", help="leave these out; may be given again")
    parser.add_argument("--jobs", type=int, default=2, help="programs that run at once")
    args = parser.parse_args()
    build = os.path.abspath(args.build)
    env = dict(os.environ)
    icd = sorted(glob.glob("/usr/share/vulkan/icd.d/lvp_icd*.json"))
    if icd and "VK_ICD_FILENAMES" not in env:
        env["VK_ICD_FILENAMES"] = icd[0]
    runtime_dir = os.path.join(ROOT, "build", "xdg")
    os.makedirs(runtime_dir, mode=0o700, exist_ok=True)
    env.setdefault("XDG_RUNTIME_DIR", runtime_dir)
    env["WEFT_BUILD"] = build
    env["WEFT_SOURCE_DIR"] = ROOT
    env["WEFT_PROGRAM"] = os.path.join(build, "weft")
    env["WEFT_CACHE_DIR"] = ""  # what an earlier run kept decides nothing
    env["WEFT_SANITIZER"] = args.sanitizer
    if args.long:
        env["WEFT_TEST_LONG"] = "1"
    suppressions = os.path.join(ROOT, "tests", "sanitizers")
    env["LSAN_OPTIONS"] = f"suppressions={suppressions}/lsan.txt:print_suppressions=0"
    # GCC 13 aligns the stack of its detection of uses after return to 32 bytes, where AVX-512 asks for 64 (GCC bug 110027).
    env["ASAN_OPTIONS"] = "allocator_may_return_null=1:detect_stack_use_after_return=0"
    env["UBSAN_OPTIONS"] = "halt_on_error=1:print_stacktrace=1"
    env["TSAN_OPTIONS"] = f"suppressions={suppressions}/tsan.txt:halt_on_error=1"
    missing = capabilities(build, env)
    if args.sanitizer == "thread":
        missing["webgpu"] = missing["tint"] = "the thread sanitizer runs the CPU parts"
    if args.sanitizer:
        missing["clang"] = missing["tint"] = "not under a sanitizer"

    program_env, python_env = {}, {}
    if args.sanitizer == "address":
        program_env["LD_PRELOAD"] = preload_for_leaks(env.get("VK_ICD_FILENAMES", ""))
        python_env["ASAN_OPTIONS"] = env["ASAN_OPTIONS"] + ":detect_leaks=0"  # the programs they start load drivers too

    jobs = []
    for path in sorted(glob.glob(os.path.join(build, "test_*"))):
        name = os.path.basename(path)
        # A program whose source is gone is left over from an older build.
        if os.path.exists(os.path.join(ROOT, "tests", name + ".c")):
            jobs.append((name, [path], program_env, NEEDS.get(name, ""), 900, count_cmocka))
    plan = list(PLAN)
    if args.long:  # the rest with lowered limits too
        lowered = [(name, {**extra, **LOWERED}, needs, 2 * seconds) for name, extra, needs, seconds in PLAN if "WEFT_LIMITS" not in extra]
        plan += [job for job in lowered if not any(job[:2] == have[:2] for have in PLAN)]
    for name, extra, needs, seconds in plan:
        if os.path.exists(os.path.join(build, name)):
            limits = extra.get("WEFT_LIMITS")
            label = name + " on " + extra["WEFT_TEST_DEVICE"] + (" with tiny limits" if limits == TINY["WEFT_LIMITS"] else " with lowered limits" if limits else "")
            if name == "test_ops":
                extra = {**extra, "WEFT_OPS_REPORT": os.path.join(build, label.replace(" ", "-") + ".txt")}
            jobs.append((label, [os.path.join(build, name)], {**program_env, **extra}, needs, seconds, count_cmocka))
    python = os.path.join(ROOT, "build", "venv", "bin", "python3")
    python = python if os.path.exists(python) else sys.executable
    for path, extra, needs, long_only, seconds in PYTHON:
        if os.path.exists(os.path.join(ROOT, path)) and (args.long or not long_only):
            label = path + "".join(f" on {v}" for v in extra.values())
            jobs.append((label, [python, path, "-v"], {**python_env, **extra}, needs, seconds, count_unittest))

    pytest_env = dict(python_env)
    if args.sanitizer == "address":  # the interpreter is not instrumented: the runtime comes first
        # With the C++ runtime beside it, or libraries that throw (JAX) find no interceptor.
        names = ("libasan.so", "libstdc++.so")
        found = [subprocess.run(["cc", "-print-file-name=" + name], capture_output=True, text=True).stdout.strip() for name in names]
        pytest_env["LD_PRELOAD"] = " ".join(found)
    if args.sanitizer == "thread":
        missing["pytest"] = "the thread sanitizer runs the CPU parts in C"
    if subprocess.run([python, "-c", "import numpy, scipy, hypothesis, pytest"], capture_output=True).returncode:
        missing["pytest"] = "numpy, scipy, hypothesis or pytest is not there"
    if not glob.glob(os.path.join(build, "python", "weft", "_weft*")):
        missing["pytest"] = "the Python package is not built"
    for path, extra, needs, long_only, seconds in PYTEST:
        if os.path.exists(os.path.join(ROOT, path)) and (args.long or not long_only):
            label = path + "".join(f" on {v}" for k, v in extra.items() if k == "WEFT_TEST_DEVICE")
            needs = "pytest" if "pytest" in missing else needs
            jobs.append((label, [python, "-m", "pytest", "-q", "-rsf", "--tb=short", "-p", "no:cacheprovider", path], {**pytest_env, **extra},
                         needs, seconds, count_pytest))

    begin = time.time()
    todo = []
    for label, command, extra, needs, seconds, counter in jobs:
        if args.only not in label or any(text in label for text in args.skip):
            continue
        if needs in missing:
            Counts.skipped += 1
            Counts.skips.append(f"{label}: needs {needs}: {missing[needs]}")
            print(f"skip {label:58} needs {needs}: {missing[needs]}", flush=True)
            continue
        todo.append((label, command, {**env, **extra}, seconds * (4 if args.sanitizer else 1), counter))
    for job in todo:
        if job[0].split()[0] in ALONE:
            run_one(*job)
    with ThreadPoolExecutor(args.jobs) as pool:  # the longest first, so that none is left at the end
        rest = [job for job in todo if job[0].split()[0] not in ALONE]
        for done in [pool.submit(run_one, *job) for job in sorted(rest, key=lambda job: -job[3])]:
            done.result()
    cpu = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"\n{time.time() - begin:.0f} s, {cpu.ru_utime + cpu.ru_stime:.0f} s of processors")
    for line in Counts.skips:
        print("skipped", line)
    for label, names in Counts.failures:
        print("failed ", label, ", ".join(names))
    if Counts.left:
        print(f"{Counts.left} left to make test-long")
    print(f"{Counts.passed} passed, {Counts.failed} failed, {Counts.skipped} skipped")
    if env.get("WEFT_REQUIRE") and Counts.skipped:
        print("WEFT_REQUIRE is set: a skip is a failure")
        return 1
    return 1 if Counts.failed or Counts.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
