"""Finds out what of a GPU set-up works on this machine.

Everything that loads Paddle runs in a process of its own with a time limit: a broken driver or wheel can end a
process without an error, and the rest of the answers must survive that.
"""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from fdprof.backends.paddle import INSTALL_PADDLE
from fdprof.errors import EnvironmentMissing, FdprofError
from fdprof.nsys_tool import INSTALL, find_nsys, importer_problem
from fdprof.ops.toolkit import cupti_library

_PADDLE_TIMEOUT_S = 300  # importing Paddle and building the ops once
_TOOL_TIMEOUT_S = 20

_PROBE = """
import json, os, sys
sys.stdout.flush()
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # Paddle and compilers print on standard output
facts = {}
def tell():
    out.write(json.dumps(facts) + "\\n"); out.flush()
import paddle
facts["version"] = paddle.__version__
facts["cuda"] = bool(paddle.is_compiled_with_cuda())
tell()
facts["devices"] = paddle.device.cuda.device_count() if facts["cuda"] else 0
tell()
if facts["devices"]:
    facts["capability"] = list(paddle.device.cuda.get_device_capability())
    tell()
    value = paddle.full([4], 7, dtype="int64").numpy().tolist()
    facts["kernel"] = value
    tell()
try:
    from fdprof.ops import ops
    ops.load()
    facts["ops"] = True
except Exception as error:
    facts["ops"] = False
    facts["ops_error"] = str(error)
    facts["ops_hint"] = getattr(error, "hint", None)
tell()
if facts["ops"] and facts["devices"]:
    tensor = ops.paddle_pinned_tensor([4], "int64")
    facts["pinned"] = ops.memory_kind(tensor)
    tell()
"""


@dataclass(frozen=True, slots=True)
class Check:
    """One answer. `status` is ok, missing or unknown; `fix` is empty when there is nothing to do."""

    name: str
    status: str
    detail: str
    fix: str = ""


def diagnose() -> list[Check]:
    """Return all checks, in the order in which they build on one another."""
    facts, failure = _paddle_facts()
    return [
        *_driver_and_gpu(),
        _nvcc(),
        *_paddle(facts, failure),
        _nsys(),
        _collector(),
        Check("simulator", "ok", "needs nothing: --backend sim"),
    ]


def _driver_and_gpu() -> list[Check]:
    if shutil.which("nvidia-smi") is None:
        return [
            Check("driver", "missing", "nvidia-smi is not on PATH", "install the NVIDIA driver, or use --backend sim"),
            Check("GPU", "missing", "no driver", "use --backend sim"),
        ]
    done = _call(["nvidia-smi", "--query-gpu=driver_version,name", "--format=csv,noheader"])
    if done is None or done.returncode:
        return [Check("driver", "missing", "nvidia-smi fails", "run `nvidia-smi` and follow its message")]
    rows = [line.split(", ", 1) for line in done.stdout.strip().splitlines() if ", " in line]
    if not rows:
        return [Check("GPU", "missing", "the driver lists no GPU", "check that the card is visible to this machine")]
    return [
        Check("driver", "ok", rows[0][0]),
        Check("GPU", "ok", "; ".join(name for _, name in rows)),
    ]


def _nvcc() -> Check:
    nvcc = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    if nvcc is None:
        return Check("nvcc", "missing", "not on PATH", "install the CUDA toolkit: the ops are built with it, once")
    done = _call([nvcc, "--version"])
    text = done.stdout if done else ""
    release = next((line.strip() for line in text.splitlines() if "release" in line), "version unknown")
    return Check("nvcc", "ok", f"{nvcc}: {release}")


def _collector() -> Check:
    """Return whether fdprof's own collector can be built, which `fdprof capture` takes where there is no nsys."""
    from fdprof.ops.collector.build import collector_library

    try:
        library = collector_library()
    except FdprofError as error:
        return Check("collector", "missing", str(error), error.hint or "")
    cupti = cupti_library()
    if cupti is None:
        fix = "install the CUDA toolkit, or set FDPROF_CUPTI to libcupti.so; without it only ranges are recorded"
        return Check("collector", "unknown", f"{library}; CUPTI's library was not found", fix)
    return Check("collector", "ok", f"{library}; CUPTI {cupti}")


def _nsys() -> Check:
    try:
        nsys = find_nsys()
        problem = None if nsys is None else importer_problem(nsys)
    except EnvironmentMissing as error:
        return Check("nsys", "missing", str(error), error.hint or "")
    if nsys is None:
        return Check("nsys", "missing", "not on PATH and not in NVIDIA's folders", INSTALL)
    if problem is not None:
        return Check("nsys", "missing", str(problem), problem.hint or "")
    return Check("nsys", "ok", f"{nsys.version}: {nsys.path}")


def _paddle(facts: dict[str, Any], failure: str) -> list[Check]:
    if "version" not in facts:
        return [Check("Paddle", "missing", failure, INSTALL_PADDLE)]
    kind = "CUDA" if facts["cuda"] else "CPU"
    checks = [Check("Paddle", "ok", f"{facts['version']}, built for {kind}")]
    if not facts["cuda"]:
        checks.append(
            Check("Paddle's kernels", "unknown", "a CPU build has none for a GPU", "install paddlepaddle-gpu")
        )
    elif not facts.get("devices"):
        checks.append(
            Check("Paddle's kernels", "unknown", "Paddle sees no GPU", "check nvidia-smi and CUDA_VISIBLE_DEVICES")
        )
    elif facts.get("kernel") == [7, 7, 7, 7]:
        checks.append(Check("Paddle's kernels", "ok", "paddle.full gave the right values on this card"))
    elif "kernel" in facts:
        checks.append(
            Check(
                "Paddle's kernels",
                "missing",
                f"paddle.full([4], 7) gave {facts['kernel']} on a card of compute capability "
                f"{'.'.join(map(str, facts['capability']))}: this wheel has no code for it and does not say so",
                "fdprof's own loop is not affected (its kernels are its own); for anything else install a Paddle built "
                "for this card",
            )
        )
    else:
        checks.append(
            Check("Paddle's kernels", "missing", f"running one ended the process: {failure}", "reinstall Paddle")
        )
    if facts.get("ops"):
        checks.append(Check("ops", "ok", "built and loaded"))
    elif "ops" in facts:
        checks.append(Check("ops", "missing", facts["ops_error"], facts["ops_hint"] or ""))
    else:
        checks.append(Check("ops", "unknown", failure or "not reached"))
    if facts.get("pinned") == "pinned":
        checks.append(Check("pinned memory", "ok", "CUDAPinnedPlace gives page-locked memory"))
    elif "pinned" in facts:
        checks.append(
            Check("pinned memory", "missing", f"CUDAPinnedPlace gave {facts['pinned']} memory", "check `ulimit -l`")
        )
    else:
        checks.append(Check("pinned memory", "unknown", "needs a GPU and the ops"))
    return checks


def _paddle_facts() -> tuple[dict[str, Any], str]:
    """Return what the probe told before it ended, and why it ended early if it did."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROBE], capture_output=True, text=True, timeout=_PADDLE_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return {}, f"did not answer within {_PADDLE_TIMEOUT_S} s"
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    facts = json.loads(lines[-1]) if lines else {}
    if done.returncode < 0:
        return facts, f"ended by signal {-done.returncode}"
    last = done.stderr.strip().splitlines()[-1:] if done.returncode else []
    return facts, last[0] if last else ""


def _call(command: list[str]) -> "subprocess.CompletedProcess[str] | None":
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=_TOOL_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
