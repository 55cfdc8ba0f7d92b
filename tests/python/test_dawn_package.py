"""wf.use_dawn: Dawn from the package wgpudawn under the Python package, in a process of its own. Dawn refuses lavapipe, so without
a GPU this runs on SwiftShader, which tools/setup_swiftshader.sh puts into the build folder."""
import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = """
import numpy as np, weft as wf
version = wf.use_dawn()
assert wf.use_dawn() == version
device = wf.device("webgpu")
assert device is wf.device("webgpu") and device.info()["implementation"] == "Dawn", device.info()
a = np.arange(12, dtype=np.float32).reshape(3, 4)
x = wf.tensor(a)
assert np.array_equal((x @ x.T).numpy(), a @ a.T) and x.device is device
assert np.array_equal(wf.tensor(a, device="cpu").numpy(), a) and x[:, ::-1].numpy().tolist() == a[:, ::-1].tolist()
try:
    x.index_select(0, wf.tensor([7])).numpy()
    raise SystemExit("an index outside is no error")
except wf.IndexError as error:
    assert "7" in str(error) and "extent 3" in str(error)
print("dawn", version)
"""


@pytest.mark.skipif(importlib.util.find_spec("wgpudawn") is None, reason="the package wgpudawn is not installed")
def test_operations_run_on_dawn():
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    build = pathlib.Path(os.environ.get("WEFT_BUILD", ROOT / "build" / "release")).resolve()
    driver = build.parent / "swiftshader" / "vk_swiftshader_icd.json"
    if driver.exists():
        env.setdefault("VK_ADD_DRIVER_FILES", str(driver))
    if "lvp_icd" in env.get("VK_ICD_FILENAMES", ""):
        del env["VK_ICD_FILENAMES"]
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=env, timeout=300)
    if "no adapter" in done.stderr and "dawn" not in env.get("WEFT_REQUIRE", ""):
        pytest.skip("Dawn has no adapter here")
    assert done.returncode == 0 and done.stdout.startswith("dawn"), done.stdout + done.stderr
