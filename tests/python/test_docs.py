"""What is made from the table of operations is up to date, and its bounds can be read."""
import ast
import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest
import weft as wf

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ENV = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))


def run(*command):
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, cwd=ROOT, env=ENV)
    return done.returncode, done.stdout + done.stderr


def test_docs_of_operations_are_up_to_date():
    code, said = run("tools/op_docs.py", "--check", *(["--build", os.environ["WEFT_BUILD"]] if "WEFT_BUILD" in os.environ else []))
    assert code == 0, said


def test_type_stubs_are_up_to_date():
    code, said = run("bindings/python/tools/stubs.py", "--check")
    assert code == 0, said or "run bindings/python/tools/stubs.py with PYTHONPATH=build/release/python"


def test_type_stubs_parse():
    ast.parse((ROOT / "bindings/python/weft/__init__.pyi").read_text())


@pytest.mark.parametrize("row", wf.operation_table(), ids=lambda row: row[0])
def test_bound_is_an_expression(row):
    ast.parse(row[3], mode="eval")


def test_a_typed_program_runs():
    code, said = run("tests/python/typed_program.py")
    assert code == 0, said


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
def test_a_type_checker_accepts_it():
    done = subprocess.run([sys.executable, "-m", "mypy", "--cache-dir", os.devnull, "tests/python/typed_program.py"], capture_output=True, text=True,
                          cwd=ROOT, env=dict(os.environ, MYPYPATH=str(ROOT / "bindings" / "python")))
    assert done.returncode == 0, done.stdout + done.stderr
