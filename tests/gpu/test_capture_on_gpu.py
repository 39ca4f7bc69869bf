"""`fdprof capture` on a real GPU: both ways see one loop, a killed command is analyzed, inflation forbids verdicts."""

# ruff: noqa: SIM300
import json
import sys
from pathlib import Path

import pytest

from fdprof.nsys_tool import find_nsys, importer_problem

pytestmark = pytest.mark.gpu

LOOP = ("--device-us", "500", "--kernels", "4", "--steps", "40", "--warmup", "5")


def nsys_missing():
    nsys = find_nsys()
    return nsys is None or importer_problem(nsys) is not None


def captured(run_cli, *arguments):
    """Return the analysis that `fdprof capture` prints as JSON."""
    done = run_cli("capture", *arguments, "--json")
    assert 0 == done.exit_code, done.stderr
    return json.loads(done.stdout)


def test_both_ways_see_the_same_loop(run_cli):
    """async copies 512 B and 1 B a step and waits for one event: 40 steps, 2 transfers, 1 wait, the same device work.

    Device busy differs by less than 2 %: it is the same kernels, timed by CUPTI in both; no gap is left unexplained.
    """
    if nsys_missing():
        pytest.skip("no nsys that can write reports")
    assert 0 == run_cli("run", "stop_flag", "--backend", "paddle", *LOOP, "--runs", "bare").exit_code
    (bare,) = Path("bare").iterdir()
    ours, theirs = (
        captured(run_cli, "stop_flag", "--mode", "async", "--with", tool, *LOOP, "--no-save", "--work-of", str(bare))
        for tool in ("fdprof", "nsys")
    )
    for document in (ours, theirs):
        assert 40 == document["steps"]
        assert 0 == document["residual_ns"]
        assert [512, 1] == [transfer["size_bytes"] for transfer in document["transfers"]]
    assert ours["syncs_per_step"] == theirs["syncs_per_step"]
    busy = [document["ledger"]["mean"]["device_busy_ns"] for document in (ours, theirs)]
    assert busy[0] == pytest.approx(busy[1], rel=0.02)


def test_a_measured_inflation_beyond_the_bound_leaves_no_verdict(run_cli):
    """Two captures of one loop: whatever they differ by, the collector's cost with what processes differ by is more."""
    document = captured(
        run_cli, "stop_flag", "--mode", "overlap", "--with", "fdprof", *LOOP, "--measure-inflation", "--rounds", "1"
    )
    assert document["inflation"]["ratio"] > 0.5
    assert document["inflation"]["interval"] is None
    captured(run_cli, "stop_flag", "--mode", "overlap", "--with", "fdprof", *LOOP)
    first, second = sorted(Path("runs").glob("*-capture-*"), key=lambda folder: folder.stat().st_mtime)
    done = run_cli("compare", str(first), str(second), "--json")
    assert 3 == done.exit_code
    assert "the tracer may change a step of the baseline by" in json.loads(done.stdout)["reason"]


_FOR_EVER = """
import torch
import fdprof
x = torch.ones(1 << 20, device="cuda")
k = 0
while True:
    with fdprof.step(k):
        (x * 2).sum().item()
    k += 1
"""


def test_a_command_beyond_its_limit_is_ended_and_analyzed(run_cli):
    """Exit code 124 as of timeout(1), and thousands of steps, each with one blocking read of one value."""
    pytest.importorskip("torch")
    done = run_cli(
        "capture", "--with", "fdprof", "--limit", "12", "--json", "--no-save", "--", sys.executable, "-c", _FOR_EVER
    )
    assert 124 == done.exit_code, done.stderr
    document = json.loads(done.stdout)
    assert document["steps"] > 1000
    assert 0.9 < document["syncs_per_step"] < 2.1  # the copy itself, or the copy and the synchronisation behind it
