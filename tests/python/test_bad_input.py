"""Every row of the table with wrong arguments (bad_input.py), in a process of its own: a crash there is a failure here."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

import harness
import test_oracle  # noqa: F401  reads the references

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLES = max(2, int(os.environ.get("WEFT_ORACLE_EXAMPLES", "25")) // 8)  # four wrong calls each
MEMORY_BYTES = 12 << 30  # an allocation that a hostile size asks for fails instead of taking the machine
NAMES = [name for name in harness.ROWS if name in harness.REFERENCES and harness.ROWS[name][6]]
GROUP = 60


def limit_memory():
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


@pytest.mark.skipif(os.name != "posix", reason="needs a limit of memory")
@pytest.mark.parametrize("first", range(0, len(NAMES), GROUP))
def test_wrong_arguments_are_exceptions_with_a_sentence(first):
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), WEFT_BAD_INPUT_TRAIL="1")
    command = [sys.executable, HERE / "bad_input.py", os.environ.get("WEFT_ORACLE_SEED", "0"), str(EXAMPLES), *NAMES[first:first + GROUP]]
    # Drivers of GPUs, and the shadow of a sanitizer, map much more than they use.
    limit = limit_memory if harness.DEVICE == "cpu" and not os.environ.get("WEFT_SANITIZER") else None
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=3600, preexec_fn=limit)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    findings = [row for row in rows if len(row) > 1]
    last = [line for line in done.stderr.splitlines() if line.startswith("trail")][-1:]
    assert done.returncode == 0, f"ended with {done.returncode} after {last}\n{done.stderr[-3000:]}"
    assert [row[0] for row in rows if len(row) == 1] == NAMES[first:first + GROUP]
    assert not findings, "\n".join(f"{call}\n    {what}" for call, what in findings)
