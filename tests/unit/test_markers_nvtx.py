# ruff: noqa: SIM300 - the expected value stands first
"""Markers under NVTX tools, a small one made here and Nsight Systems; the examples in docs/ under the small one."""

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def _python(code, **environment):
    """Run code in a new process and return what it printed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NVTX_", "CUDA_INJ", "LD_PRE"))}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=kept | environment, timeout=120
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout.split("\n")[:-1]


@pytest.fixture(params=[(), ("-DCALLS_DOMAINS_DISABLED",)], ids=["enabled", "calls domains disabled"])
def tool(request, make_nvtx_tool):
    """A tool that says of every domain that it is enabled, as most do, and one that says the opposite."""
    return make_nvtx_tool(*request.param)


def _taped(tool, tmp_path, code, **environment):
    """Return what the tool was told while code ran, by thread in the order of their first words."""
    tape = tmp_path / "tape"
    _python(code, NVTX_INJECTION64_PATH=str(tool), TAPE=str(tape), **environment)
    threads = {}
    for line in tape.read_text(encoding="utf-8").splitlines() if tape.exists() else []:
        thread, domain, *said = line.split(" ")
        assert "fdprof" == domain
        threads.setdefault(thread, []).append(" ".join(said))
    return list(threads.values())


STEP = """
from fdprof.markers import fence, step, transfer
for k in range(2):
    with step(k):
        with transfer("sampled_token_ids"): pass
        with fence("sampled_token_ids"): pass
with step(None), fence(): pass
"""


def test_an_nvtx_tool_gets_the_ranges_in_the_domain_fdprof(tool, tmp_path):
    """The step's index as a 64-bit payload, and none on the others, nor on a step after it without an index."""
    inner = ["push transfer:sampled_token_ids -", "pop", "push fence:sampled_token_ids -", "pop"]
    steps = ["push step 0", *inner, "pop", "push step 1", *inner, "pop"]
    assert [[*steps, "push step -", "push fence -", "pop", "pop"]] == _taped(tool, tmp_path, STEP)


def test_nvtx_disable_silences_the_markers(tool, tmp_path):
    """The nvtx package's own switch."""
    assert [] == _taped(tool, tmp_path, STEP, NVTX_DISABLE="1")


def test_a_sink_beside_an_nvtx_tool_takes_nothing_from_it(tool, tmp_path):
    """Both get the same ranges, and the tool goes on when the sink is gone."""
    code = """
from fdprof import markers
class Sink:
    said = []
    def push(self, name, payload): self.said.append((name, payload))
    def pop(self): self.said.append("pop")
markers.attach(Sink())
with markers.step(5), markers.fence("a"): pass
markers.detach()
assert [("step", 5), ("fence:a", None), "pop", "pop"] == Sink.said, Sink.said
assert markers.listens()
with markers.step(6): pass
"""
    expected = ["push step 5", "push fence:a -", "pop", "pop", "push step 6", "pop"]
    assert [expected] == _taped(tool, tmp_path, code)


def test_threads_that_mark_at_once_keep_their_own_indices(tool, tmp_path):
    """Four threads with a switch of threads every few bytecodes: each one's steps are its own."""
    code = """
import sys, threading
from fdprof.markers import step
sys.setswitchinterval(1e-6)
start = threading.Barrier(4)
def run(base):
    start.wait()
    for k in range(base, base + 500):
        with step(k): pass
threads = [threading.Thread(target=run, args=(1000 * n,)) for n in range(1, 5)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    threads = _taped(tool, tmp_path, code)
    expected = [
        [line for k in range(base, base + 500) for line in (f"push step {k}", "pop")]
        for base in range(1000, 5000, 1000)
    ]
    assert expected == sorted(threads, key=lambda lines: lines[0])


TOKENS = "8 43 218 84 423 100 503 500 485 410 35 178 893 432 145 728 616 56 283 409"
"""20 times x * 5 + 3 modulo 1009, from 1 on."""


@pytest.mark.parametrize("example", ["fastdeploy_shaped.py", "vllm_shaped.py"])
def test_the_examples_run_and_their_tokens_are_right(example):
    """With what is here: a framework and its GPU, or numpy."""
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / example], capture_output=True, text=True, cwd=ROOT, timeout=300
    )
    assert (0, f"tokens of row 1: {TOKENS}") == (done.returncode, done.stdout.strip().partition(" ")[2]), done.stderr


@pytest.mark.parametrize(
    ("example", "first", "later"),
    [
        ("fastdeploy_shaped.py", ["transfer"], ["fence", "transfer"]),
        ("vllm_shaped.py", ["transfer"], ["transfer", "fence"]),
    ],
)
def test_the_examples_mark_their_20_steps(make_nvtx_tool, tmp_path, example, first, later):
    """The tokens of step k are waited for in step k + 1, and the last ones after it."""
    expected = []
    for k, kinds in enumerate([first, *[later] * 19]):
        inside = [line for kind in kinds for line in (f"push {kind}:sampled_token_ids -", "pop")]
        expected += [f"push step {k}", *inside, "pop"]
    expected += ["push fence:sampled_token_ids -", "pop"]
    code = f"import runpy; runpy.run_path({str(ROOT / 'docs' / example)!r}, run_name='__main__')"
    assert [expected] == _taped(make_nvtx_tool(), tmp_path, code)


def _nsys():
    named = os.environ.get("FDPROF_NSYS") or shutil.which("nsys")
    if named is None:
        pytest.skip("nsys is not on PATH, and FDPROF_NSYS does not name it")
    return named


def test_nsight_systems_records_the_markers(tmp_path):
    """What it exports: per range its name, its domain and its payload."""
    nsys, report = _nsys(), tmp_path / "report"
    command = [nsys, "profile", "-t", "nvtx", "-s", "none", "--cpuctxsw=none", "--export=sqlite", "-o", report]
    done = subprocess.run([*command, sys.executable, "-c", STEP], capture_output=True, text=True, cwd=ROOT, timeout=300)
    if not report.with_suffix(".sqlite").exists():
        pytest.skip(f"{nsys} leaves no sqlite export here: {(done.stdout + done.stderr)[-300:]}")
    query = """
        SELECT StringIds.value, domain.text, event.int64Value FROM NVTX_EVENTS AS event
        JOIN StringIds ON StringIds.id = event.textId
        JOIN (SELECT DISTINCT domainId, text FROM NVTX_EVENTS WHERE eventType = 75) AS domain USING (domainId)
        WHERE event.eventType = 59 ORDER BY event.start
    """
    connection = sqlite3.connect(report.with_suffix(".sqlite"))
    rows = connection.execute(query).fetchall()
    connection.close()
    inner = [("transfer:sampled_token_ids", "fdprof", None), ("fence:sampled_token_ids", "fdprof", None)]
    steps = [("step", "fdprof", 0), *inner, ("step", "fdprof", 1), *inner]
    assert [*steps, ("step", "fdprof", None), ("fence", "fdprof", None)] == rows
