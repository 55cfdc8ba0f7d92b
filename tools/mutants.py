#!/usr/bin/env python3
"""Plant faults one by one and see that the tests find each.

    mutants.py [--only ID] [--list] [--build DIR] [-j N]

tests/mutants.json lists one-line faults: a file, the text to replace (it occurs there once), what stands in its
place, and the quick test programs that must fail. They are applied to a copy of the tree in build/mutants, which
is built once and then file by file. A fault that compiles and that no test finds is a hole in the tests. Prints a
line a fault; ends with 1 when one survived, is out of date or does not compile.
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
LIST = ROOT / "tests" / "mutants.json"
RUN_SECONDS = 300


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

    def run(self, test):
        """Whether one test of the list passes, None when it took too long; a test is "program" or "program VARIABLE=value ..."."""
        name, *settings = test.split()
        env = {**os.environ, "WEFT_SOURCE_DIR": str(self.folder), **dict(s.split("=", 1) for s in settings)}
        icd = sorted(pathlib.Path("/usr/share/vulkan/icd.d").glob("lvp_icd*.json"))
        if icd:
            env.setdefault("VK_ICD_FILENAMES", str(icd[0]))
        try:
            done = subprocess.run([self.build / name], cwd=self.folder, env=env, capture_output=True, timeout=RUN_SECONDS)
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
        names = sorted({test.split()[0] for test in mutant["tests"]})
        trouble = tree.make(names)
        if trouble:
            return "broken", "does not compile:\n" + trouble
        verdicts = {}
        for test in mutant["tests"]:
            verdicts[test] = tree.run(test)
            if verdicts[test] is False:
                return "found", "by " + test
        if None in verdicts.values():
            return "timeout", f"no verdict in {RUN_SECONDS} s"
        return "survived", ", ".join(mutant["tests"]) + " pass"
    finally:
        (tree.folder / mutant["file"]).write_text(original)


def check_clean(tree, mutants):
    """All listed tests pass without a fault."""
    tests = sorted({test for m in mutants for test in m["tests"]})
    trouble = tree.make(sorted({test.split()[0] for test in tests}))
    if trouble:
        print(trouble)
        return False
    failing = [test for test in tests if not tree.run(test)]
    for test in failing:
        print("fails without a fault:", test)
    return not failing


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--build", default=str(ROOT / "build" / "mutants"))
    parser.add_argument("-j", type=int, default=2)
    args = parser.parse_args()
    mutants = [m for m in json.loads(LIST.read_text()) if args.only in m["id"]]
    if args.list:
        for m in mutants:
            print(f'{m["id"]:36} {m["file"]}')
        return 0
    tree = Tree(pathlib.Path(args.build), args.j)
    tree.configure()
    begin = time.time()
    if not check_clean(tree, mutants):
        return 1
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
