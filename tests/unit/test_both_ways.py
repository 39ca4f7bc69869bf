# ruff: noqa: SIM300 - the expected value stands first
"""One loop by nsys and by our collector, in two processes on an H200: tests/data/h200-2026-11-30/both-ways.

The collector's tables are read a second time here, in plain loops and by product.md's definitions alone, and every
number must come out to the ns.  Between the two ways the device's work and the counts must agree; the host's times are
those of two processes.
"""

import gzip
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from fdprof.analysis.capture_result import analyze
from fdprof.analysis.steps import Choice
from fdprof.capture import ApiKind, Evidence, WorkKind
from fdprof.imports import import_capture

DATA = Path(__file__).parents[1] / "data" / "h200-2026-11-30" / "both-ways"
LOOPS = sorted(path.name.removesuffix(".fdprof") for path in DATA.glob("*.fdprof"))
WARMUP = 5
BUSY_WITHIN = 0.01
"""How far apart the device's mean busy time may be: the 15 pairs of that session lie within 0.7 %."""


def quiet(text: str) -> None:
    """No progress."""


def result_of(path):
    return analyze(import_capture(path, quiet), str(path), Choice(), first=WARMUP)


@pytest.fixture(scope="module", params=LOOPS)
def both(request, tmp_path_factory):
    """The two analyses of a loop: ours, nsys's."""
    export = tmp_path_factory.mktemp("export") / "report.sqlite"
    export.write_bytes(gzip.decompress((DATA / f"{request.param}.nsys.sqlite.gz").read_bytes()))
    return result_of(DATA / f"{request.param}.fdprof"), result_of(export)


def rows_of(loop, table):
    return pq.read_table(DATA / f"{loop}.fdprof" / f"{table}.parquet").to_pylist()


def union_within(intervals, low, high):
    total, reached = 0, low
    for start, end in sorted(interval for interval in intervals if interval[0] < high and interval[1] > low):
        start, end = max(start, reached), min(end, high)
        if end > start:
            total += end - start
            reached = end
    return total


def windows_of(loop, names):
    """Return the windows by the ranges named step: each to the start of the next, the last to its own end."""
    steps = sorted((row["start_ns"], row["end_ns"]) for row in rows_of(loop, "ranges") if names[row["name"]] == "step")
    ends = [start for start, _ in steps[1:]] + [steps[-1][1]]
    return [(start, end) for (start, _), end in zip(steps, ends, strict=True)][WARMUP:]


def blocking_of(loop, names):
    """Return the calls that wait: by name, or a copy that returned only after its own copy had ended."""
    copies = {row["api"]: row for row in rows_of(loop, "device") if row["kind"] == WorkKind.COPY}
    found = []
    for index, row in enumerate(rows_of(loop, "api")):
        call = names[row["name"]].split("_v")[0]
        copy = copies.get(index)
        waits = call in ("cudaStreamSynchronize", "cudaEventSynchronize", "cudaDeviceSynchronize", "cuCtxSynchronize")
        late = call == "cudaMemcpyAsync" and copy is not None and row["end_ns"] >= copy["end_ns"]
        if waits or late or call == "cudaMemcpy":
            found.append((row["start_ns"], row["end_ns"]))
    return found


@pytest.mark.parametrize("loop", LOOPS)
def test_windows_busy_and_blocked_are_what_an_independent_reading_of_the_tables_gives(loop):
    """Every step, to the ns: 40 counted, the 5 of the warm-up left out, and in overlap the one after the stop."""
    ledger = result_of(DATA / f"{loop}.fdprof").facts.ledger
    names = import_capture(DATA / f"{loop}.fdprof", quiet).names
    windows = windows_of(loop, names)
    work = [(row["start_ns"], row["end_ns"]) for row in rows_of(loop, "device")]
    blocking = blocking_of(loop, names)
    assert (41 if "overlap" in loop else 40) == len(windows)
    assert [end - start for start, end in windows] == ledger.window_ns.tolist()
    assert [union_within(work, start, end) for start, end in windows] == ledger.device_busy_ns.tolist()
    assert [union_within(blocking, start, end) for start, end in windows] == ledger.host_blocked_ns.tolist()
    assert 0 == ledger.largest_residual_ns


def test_both_ways_see_the_same_work_and_the_same_calls(both):
    """Steps, and bytes, number and memory of the transfers; nothing is left unexplained."""
    ours, theirs = both
    assert len(ours.facts.steps) == len(theirs.facts.steps)

    def transfers(result):
        return sorted((t.size_bytes, t.per_step, t.memory) for t in result.facts.transfers)

    assert transfers(theirs) == transfers(ours)
    assert [0, 0] == [result.facts.ledger.largest_residual_ns for result in both]


def test_both_ways_measure_the_same_device_work(both):
    """Mean device busy a step."""
    ours, theirs = (float(np.mean(result.facts.ledger.device_busy_ns)) for result in both)
    assert ours == pytest.approx(theirs, rel=BUSY_WITHIN)


@pytest.mark.parametrize("loop", ["stop_flag_async", "stop_flag_overlap"])
def test_each_fence_is_joined_to_its_record_by_cuptis_own_number(loop):
    """One cudaEventSynchronize a step, each proved; overlap waits for the record of the step before."""
    capture = import_capture(DATA / f"{loop}.fdprof", quiet)
    waits = np.flatnonzero(capture.api["kind"] == ApiKind.EVENT_WAIT)
    links = capture.links
    by_event = np.isin(links["wait"], waits)
    assert len(waits) == int(by_event.sum())
    assert {int(Evidence.PROVED)} == set(links["evidence"][by_event].tolist())
    assert (links["record"][by_event] < links["wait"][by_event]).all()
