#!/usr/bin/env python3
"""Plant faults one by one and see that the tests find each.

    mutants.py [--only ID,..] [--oracle] [--unchecked] [--list] [--build DIR] [-j N]

tests/mutants.json (kernels), mutants_ops.json (operations) and mutants_compile.json (fusion, planner, keys of plans) list one-line faults:
a file, the text to replace (it occurs there once), what stands in its place, and what must fail: quick test programs ("tests"), or cases
of the Python tests with their fixed seeds ("oracle": "op:NAME" and "border:NAME" of tests/python/test_oracle.py, "chain", "promotion" or
"graphs" for the file of that name). They are applied to a copy of the
tree in build/mutants, which is built once and then file by file. A fault that compiles and that no test finds is a hole in
the tests. Prints a line a fault; ends with 1 when one survived, is out of date or does not compile.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LISTS = [ROOT / "tests" / name for name in ("mutants.json", "mutants_ops.json", "mutants_compile.json")]
PYTHON = ROOT / "build" / "venv" / "bin" / "python3"
MODULE = "weft-python-files"
ORACLE_EXAMPLES = 200
GRAPHS = 600  # as in make test
RUN_SECONDS = 300


def faults():
    return [m for path in LISTS for m in json.loads(path.read_text())]


def tests_of(mutant):
    """What must fail, one string each; cases of the oracle run together."""
    oracle = ["oracle " + " ".join(mutant["oracle"])] if "oracle" in mutant else []
    return mutant.get("tests", []) + oracle


def target_of(test):
    name = test.split()[0]
    return MODULE if name == "oracle" else name


def oracle_case(word):
    kind, _, name = word.partition(":")
    return f"test_oracle.py::test_{kind}[{name}]" if name else f"test_{kind}.py"


def copy_tree(to):
    """The files of the working tree that are not ignored; unchanged ones keep their time."""
    done = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    names = [n for n in done.stdout.splitlines() if (ROOT / n).is_file()]
    if done.returncode or not names:
        names = [str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file() and p.relative_to(ROOT).parts[0] != "build"]
    for name in names:
        source, target = ROOT / name, to / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_bytes() != source.read_bytes():
            shutil.copyfile(source, target)
            shutil.copymode(source, target)
    known = set(names)
    for path in list((to / "src").rglob("*.[ch]")) + list((to / "tests").glob("*.[ch]")):
        if str(path.relative_to(to)) not in known:
            path.unlink()


class Tree:
    def __init__(self, folder, jobs):
        self.folder, self.build, self.jobs = folder, folder / "build" / "release", jobs

    def configure(self):
        copy_tree(self.folder)
        wgpu = self.folder / "build" / "wgpu"
        wgpu.parent.mkdir(exist_ok=True)
        if (ROOT / "build" / "wgpu").exists() and not wgpu.exists():
            wgpu.symlink_to(ROOT / "build" / "wgpu")
        subprocess.run(["cmake", "--preset", "release"], cwd=self.folder, check=True, capture_output=True)

    def make(self, targets):
        """None, or the compiler's output."""
        done = subprocess.run(["ninja", "-C", str(self.build), f"-j{self.jobs}", *targets], capture_output=True, text=True)
        return None if done.returncode == 0 else done.stdout[-3000:]

    def run_oracle(self, words, seconds):
        env = {**os.environ, "WEFT_SOURCE_DIR": str(self.folder), "WEFT_BUILD": str(self.build), "WEFT_ORACLE_EXAMPLES": str(ORACLE_EXAMPLES),
               "WEFT_GRAPHS": str(GRAPHS)}
        command = [PYTHON, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *map(oracle_case, words)]
        try:
            done = subprocess.run(command, cwd=self.folder / "tests" / "python", env=env, capture_output=True, text=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            return None
        if done.returncode not in (0, 1):  # 1: a case failed; the others are no verdict
            raise RuntimeError(f"pytest ends with {done.returncode}:\n{(done.stdout + done.stderr)[-2000:]}")
        return done.returncode == 0

    def run(self, test, seconds=RUN_SECONDS):
        """Whether one test of the list passes, None when it took too long; a test is "program", "program VARIABLE=value ..." or
        "oracle CASE .."."""
        name, *settings = test.split()
        if name == "oracle":
            return self.run_oracle(settings, seconds)
        env = {**os.environ, "WEFT_SOURCE_DIR": str(self.folder), **dict(s.split("=", 1) for s in settings)}
        icd = sorted(pathlib.Path("/usr/share/vulkan/icd.d").glob("lvp_icd*.json"))
        if icd:
            env.setdefault("VK_ICD_FILENAMES", str(icd[0]))
        try:
            done = subprocess.run([self.build / name], cwd=self.folder, env=env, capture_output=True, timeout=seconds)
            return done.returncode == 0
        except subprocess.TimeoutExpired:
            return None


def plant(tree, mutant):
    """The file's old text, after putting the fault in; None when the text is not there exactly once."""
    path = tree.folder / mutant["file"]
    text = path.read_text() if path.exists() else ""
    if text.count(mutant["find"]) != 1:
        return None
    path.write_text(text.replace(mutant["find"], mutant["replace"]))
    return text


def try_mutant(tree, mutant):
    """(verdict, sentence); the verdict is "found", "survived", "timeout" (no test said so in time) or "broken"."""
    original = plant(tree, mutant)
    if original is None:
        return "broken", f'the text does not occur once in {mutant["file"]}'
    try:
        names = sorted({target_of(test) for test in tests_of(mutant)})
        trouble = tree.make(names)
        if trouble:
            return "broken", "does not compile:\n" + trouble
        verdicts = {}
        for test in tests_of(mutant):
            try:
                verdicts[test] = tree.run(test)
            except RuntimeError as error:
                return "broken", str(error)
            if verdicts[test] is False:
                return "found", "by " + test
        if None in verdicts.values():
            return "timeout", f"no verdict in {RUN_SECONDS} s"
        return "survived", ", ".join(tests_of(mutant)) + " pass"
    finally:
        (tree.folder / mutant["file"]).write_text(original)


def check_clean(tree, mutants):
    """All listed tests pass without a fault."""
    tests = sorted({test for m in mutants for test in m.get("tests", [])})
    cases = sorted({case for m in mutants for case in m.get("oracle", [])})
    if cases:
        tests.append("oracle " + " ".join(cases))
    trouble = tree.make(sorted({target_of(test) for test in tests}))
    if trouble:
        print(trouble)
        return False
    failing = [test for test in tests if not tree.run(test, RUN_SECONDS + 30 * len(cases))]  # the oracle's cases in one go
    for test in failing:
        print("fails without a fault:", test)
    return not failing


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--oracle", action="store_true", help="only those that the oracle tests are to find")
    parser.add_argument("--unchecked", action="store_true", help="do not first see that the tests pass without a fault")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--build", default=str(ROOT / "build" / "mutants"), type=os.path.abspath)
    parser.add_argument("-j", type=int, default=2)
    args = parser.parse_args()
    mutants = [m for m in faults() if any(part in m["id"] for part in args.only.split(",")) and (not args.oracle or "oracle" in m)]
    if args.list:
        for m in mutants:
            print(f'{m["id"]:36} {m["file"]}')
        return 0
    tree = Tree(pathlib.Path(args.build), args.j)
    tree.configure()
    begin = time.time()
    if not args.unchecked and not check_clean(tree, mutants):
        return 1
    if not args.unchecked:
        print(f"without a fault all listed tests pass ({time.time() - begin:.0f} s)", flush=True)
    counts = {"found": 0, "survived": 0, "timeout": 0, "broken": 0}
    for m in mutants:
        begin = time.time()
        verdict, sentence = try_mutant(tree, m)
        counts[verdict] += 1
        print(f'{verdict:9} {m["id"]:36} {sentence} ({time.time() - begin:.0f} s)', flush=True)
    print(f'{len(mutants)} faults: {counts["found"]} found, {counts["survived"]} survived, {counts["timeout"]} ran out of time, {counts["broken"]} broken')
    return 0 if counts["found"] == len(mutants) else 1


if __name__ == "__main__":
    sys.exit(main())
