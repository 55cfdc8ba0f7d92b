#!/usr/bin/env python3
"""Check the order of the house: what a compiler does not.

    check_tree.py [--build DIR]

Layering of the includes, unique file names, names in objects and in the shared library, headers that
compile alone and are documented, and text that does not belong in a committed file. Prints each finding as
file:line: sentence, and ends with 1 when there is one. What needs a build is left out without --build.
"""
import argparse
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# A folder of src/ and the folders that stand above it: it may include from those and from itself.
# include/weft/ stands above everything.
LAYERS = {
    "base": [],
    "cache": ["base"],
    "quant": ["base"],
    "core": ["base", "quant"],
    "grad": ["base", "quant", "core"],
    "ir": ["base"],
    "wire": ["base", "ir"],
    "device": ["base", "cache", "ir", "wire"],
    "device/null": ["base", "cache", "ir", "wire", "device"],
    "device/cpu": ["base", "cache", "quant", "ir", "wire", "device"],
    "device/webgpu": ["base", "cache", "ir", "wire", "device"],
    "codegen": ["base", "cache", "quant", "core", "ir", "device"],
    "kernels": ["base", "cache", "quant", "core", "ir", "device", "codegen"],
    "compile": ["base", "cache", "quant", "core", "ir", "device", "codegen", "kernels"],
    "runtime": ["base", "cache", "quant", "core", "ir", "device", "codegen", "kernels", "compile"],
    "nn": ["base", "quant"],
    "formats": ["base", "quant"],
    "text": ["base", "quant"],
    "data": ["base", "quant"],
    "model": [],
    "cli": [],
}
# A backend's opening functions are declared in its own header; the table of backends names them.
EXCEPTIONS = {("src/device/device.c", "null_device.h")}
# Headers of libraries, and the folders that may include them.
LIBRARIES = {"webgpu.h": {"device/webgpu"}, "wgpu.h": {"device/webgpu"}, "pcre2.h": {"text"},
             "jansson.h": {"formats", "text", "model", "cli"}, "dlfcn.h": {"device/webgpu", "device/cpu", "cli"}}
SOURCE_SUFFIXES = {".c", ".h", ".inc", ".def", ".wgsl", ".py", ".sh"}
SOURCE_FOLDERS = ["src", "include", "tests", "fuzz", "examples", "tools", "bench", "bindings"]
# Split so that this file does not hold them itself.
FORBIDDEN = ["/" + folder + "/" for folder in ("work", "root", "home")] + \
            ["pypi" + ".org", "pythonhosted" + ".org", "deb.debian" + ".org", "registry.npmjs" + ".org"]

findings = []


def report(path, line, sentence):
    findings.append(f"{path}:{line}: {sentence}")


def tracked():
    done = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode == 0:
        return [name for name in done.stdout.splitlines() if (ROOT / name).is_file()]
    return [str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file() and "build" not in p.relative_to(ROOT).parts[:1]]


def text_of(name):
    try:
        return (ROOT / name).read_text(encoding="utf-8")
    except (UnicodeDecodeError, OSError):
        return None


def room_of(name):
    """'device/cpu' for src/device/cpu/x.c; None outside src/."""
    parts = pathlib.PurePosixPath(name).parts
    return "/".join(parts[1:-1]) if parts[0] == "src" and len(parts) > 2 else None


def check_layers(names):
    where = {pathlib.PurePosixPath(n).name: n for n in names if n.startswith("src/")}
    for name in names:
        room = room_of(name)
        if room is None or not name.endswith((".c", ".h", ".inc")):
            continue
        if room not in LAYERS:
            report(name, 1, f"src/{room} is not in the table of layers")
            continue
        for number, line in enumerate((text_of(name) or "").splitlines(), 1):
            match = re.match(r'\s*#\s*include\s*([<"])([^">]+)', line)
            if match:
                check_include(name, room, number, match.group(1), match.group(2), where)


def check_include(name, room, number, bracket, target, where):
    base = target.split("/")[-1]
    if base in LIBRARIES and room not in LIBRARIES[base] and not target.startswith("weft/"):
        report(name, number, f"{base} belongs to {', '.join(sorted(LIBRARIES[base]))}")
    if bracket == "<" or target.startswith("weft/") or base in LIBRARIES:
        return
    found = where.get(base)
    if not found:
        report(name, number, f'"{target}" is not in src/')
        return
    other = room_of(found)
    if other != room and other not in LAYERS[room] and (name, base) not in EXCEPTIONS:
        report(name, number, f"src/{room} must not include {target} of src/{other}")


def check_unique_names(names):
    by_name = collections.defaultdict(list)
    for name in names:
        path = pathlib.PurePosixPath(name)
        if path.suffix in SOURCE_SUFFIXES and path.parts[0] in SOURCE_FOLDERS and "data" not in path.parts:
            by_name[path.name].append(name)
    for base, places in by_name.items():
        if len(places) > 1:
            report(places[1], 1, f"the file name {base} is also {places[0]}")


def check_forbidden(names):
    for name in names:
        text = None if name.startswith(("tests/data/", "models/")) else text_of(name)
        for number, line in enumerate((text or "").splitlines(), 1):
            for word in FORBIDDEN:
                if word in line:
                    report(name, number, f"holds {word!r}")


def blocks(text):
    """(first line, text) of each run of lines without a blank line at depth 0."""
    start, depth, lines = 1, 0, []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() and depth == 0:
            if lines:
                yield start, "\n".join(lines)
            lines = []
            continue
        if not lines:
            start = number
        lines.append(line)
        bare = re.sub(r"/\*.*?\*/", "", line)
        depth += bare.count("{") - bare.count("}") - ('extern "C"' in line)
        depth = max(depth, 0)
    if lines:
        yield start, "\n".join(lines)


DECLARATION = re.compile(r"^(WEFT_API\b|typedef (struct|enum|union)\b[^;]*\{|typedef [^;]*\(\*|#define WEFT_(?!\w*_H$))", re.M)


def check_headers_documented(names):
    for name in names:
        if not name.startswith("include/weft/"):
            continue
        text = text_of(name)
        if not text.startswith("/*"):
            report(name, 1, "does not open with what it is for")
        for start, block in blocks(text):
            if re.match(r"#ifndef \w+_H\n#define \w+_H", block) or block.startswith("#ifdef __cplusplus"):
                continue
            if DECLARATION.search(block) and "/*" not in block:
                report(name, start, "a declaration without a comment: " + block.splitlines()[0])


def check_headers_alone(names):
    compilers = [("C11", ["cc", "-std=c11", "-xc"]), ("C++17", ["c++", "-std=c++17", "-xc++"])]
    for name in names:
        if not name.startswith("include/weft/") or not name.endswith(".h"):
            continue
        source = f'#include "weft/{pathlib.PurePosixPath(name).name}"\n' * 2
        for language, command in compilers:
            if not shutil.which(command[0]):
                report(name, 1, f"no {command[0]} to compile it as {language}")
                continue
            done = subprocess.run([*command, "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", "-Iinclude", "-"],
                                  input=source, capture_output=True, text=True, cwd=ROOT)
            if done.returncode:
                report(name, 1, f"does not compile alone as {language}: {done.stderr.strip().splitlines()[0]}")


def symbols(path, *options):
    done = subprocess.run(["nm", *options, str(path)], capture_output=True, text=True)
    return [line.split()[-1] for line in done.stdout.splitlines() if line.strip() and not line.endswith(":")]


def check_build(build):
    library = build / "libweft.so"
    if not library.exists():
        report(library, 1, "is not built")
        return
    for symbol in symbols(library, "-D", "--defined-only"):
        if not symbol.startswith("weft_"):
            report(library, 1, f"exports {symbol}")
    n = 0
    for folder in ("CMakeFiles/weft-model-objects.dir/src/model", "CMakeFiles/weft-main.dir/src/cli",
                   "CMakeFiles/weft-program.dir/src/cli"):
        for path in sorted((build / folder).glob("*.o")):
            n += 1
            for symbol in symbols(path):
                if symbol.startswith("wf_"):
                    report(path, 1, f"uses {symbol}: model and cli know the public interface only")
    if n == 0:
        report(build, 1, "has no objects of model and cli")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", help="a build folder: its objects and its library are checked too")
    args = parser.parse_args()
    os.chdir(ROOT)
    names = tracked()
    check_layers(names)
    check_unique_names(names)
    check_forbidden(names)
    check_headers_documented(names)
    check_headers_alone(names)
    if args.build:
        check_build(pathlib.Path(args.build))
    for line in findings:
        print(line)
    print(f"check_tree: {len(names)} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
