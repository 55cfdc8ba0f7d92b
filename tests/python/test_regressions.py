"""Every program of tests/regressions/: a failure that make fuzz found, or that somebody reported, with what is right."""
import os
import runpy
import sys

import pytest

FOLDER = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "regressions"))
PROGRAMS = sorted(name for name in os.listdir(FOLDER) if name.endswith(".py") and name != "check.py")
sys.path.insert(0, FOLDER)


def test_there_are_programs():
    assert PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    runpy.run_path(os.path.join(FOLDER, name))
