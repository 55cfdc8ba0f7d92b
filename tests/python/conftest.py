"""Fixed seeds, a count of examples from the environment, and what the run saw for docs/conformance.md."""
import json
import os
import sys

import hypothesis

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
_BUILD = os.environ.get("WEFT_BUILD") or os.path.join(os.path.dirname(__file__), "..", "..", "build", "release")
sys.path.insert(0, os.path.join(_BUILD, "python"))

import weft as wf  # noqa: E402

DEVICE = os.environ.get("WEFT_TEST_DEVICE", "cpu")
wf.device(DEVICE)

EXAMPLES = int(os.environ.get("WEFT_ORACLE_EXAMPLES", "25"))
hypothesis.settings.register_profile("fixed", max_examples=EXAMPLES, deadline=None, derandomize="WEFT_ORACLE_SEED" not in os.environ,
                                     database=None, print_blob=False, suppress_health_check=list(hypothesis.HealthCheck),
                                     phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink])
hypothesis.settings.load_profile("fixed")


FAILED = set()


def keep_failure(name):
    """The program of a failure, where make fuzz keeps them."""
    from harness import FAILURES
    folder = os.environ.get("WEFT_KEEP_FAILURES")
    if folder and name in FAILURES:
        with open(os.path.join(folder, f"found_{name}_{os.environ.get('WEFT_ORACLE_SEED', '0')}.py"), "w") as f:
            f.write(FAILURES.pop(name))


def pytest_runtest_logreport(report):
    if not report.failed:
        return
    name = report.nodeid.split("[")[-1].rstrip("]") if "[" in report.nodeid else "chain" if "test_chain" in report.nodeid else ""
    if "[" in report.nodeid:
        FAILED.add(name)
    keep_failure(name)


def pytest_sessionfinish(session, exitstatus):
    path = os.environ.get("WEFT_CONFORMANCE_OUT")
    if not path:
        return
    from harness import Worst
    rows = [[op, dtype, cases, worst] for (op, dtype), (cases, worst) in sorted(Worst.table.items())]
    with open(path, "w") as f:
        json.dump({"device": wf.device().info(), "rows": rows, "failed": sorted(FAILED), "fallback": sorted(Worst.fallback),
                   "planned": [[op, dtype, why] for (op, dtype), why in sorted(Worst.planned.items())]}, f)
