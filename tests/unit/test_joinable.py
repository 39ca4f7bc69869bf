"""fdprof.joinable: a capture ends where its calls begin to share their correlation ids."""

# ruff: noqa: SIM300 - the expected value stands first
import dataclasses

import numpy as np
import pytest

from fdprof.capture import UNTIMED_COPIES, Evidence
from fdprof.joinable import joinable, shared_ids
from fdprof.model import Table

# Start, end and thread of calls with one id.
AFTER_EACH_OTHER = [(10, 20, 0), (30, 40, 0)]
NESTED = [(10, 20, 0), (12, 18, 0)]
AS_LONG = [(10, 20, 0), (10, 20, 0)]
LONGER_THAN_THE_OUTER = [(10, 20, 0), (12, 21, 0)]
AT_ITS_END = [(10, 20, 0), (20, 21, 0)]
AT_ITS_END_WITHOUT_A_LENGTH = [(10, 20, 0), (20, 20, 0)]
FROM_ITS_BEGIN_WITHOUT_A_LENGTH = [(10, 20, 0), (10, 10, 0)]
BOTH_WITHOUT_A_LENGTH = [(10, 10, 0), (10, 10, 0)]
ON_TWO_THREADS = [(10, 20, 0), (12, 18, 1)]
NESTED_AND_AFTER = [(10, 20, 0), (12, 18, 0), (30, 40, 0)]


@pytest.mark.parametrize(
    ("same", "is_shared"),
    [
        (AFTER_EACH_OTHER, True),
        (NESTED, False),
        (AS_LONG, False),
        (LONGER_THAN_THE_OUTER, False),  # times in whole us may say so of a call within another
        (AT_ITS_END, True),
        (AT_ITS_END_WITHOUT_A_LENGTH, False),
        (FROM_ITS_BEGIN_WITHOUT_A_LENGTH, False),
        (BOTH_WITHOUT_A_LENGTH, False),
        (ON_TWO_THREADS, True),
        (NESTED_AND_AFTER, True),
    ],
)
@pytest.mark.parametrize("backwards", [False, True])
def test_an_id_is_shared_by_calls_that_are_not_within_each_other(same, is_shared, backwards):
    """Calls of an id of their own, and calls without one, stay as they are beside them, in whatever order."""
    rows = [(0, 5, 0, 3), (0, 5, 0, -1), *((*one, 4) for one in same), (50, 60, 0, 5), (51, 60, 0, -1)]
    expected = [False, False, *([is_shared] * len(same)), False, False]
    order = -1 if backwards else 1
    start, end, thread, correlation = np.array(rows[::order], dtype=np.int64).T
    calls = {"start_ns": start, "end_ns": end, "thread": thread, "correlation": correlation}
    assert expected[::order] == shared_ids(np.full(len(rows), 7), calls).tolist()


@pytest.mark.parametrize(("processes", "is_shared"), [([1, 2, 3], [False] * 3), ([1, 2, 1], [True, False, True])])
def test_an_id_is_shared_within_a_process(processes, is_shared):
    """Three calls have id 4, of which the first and the last may be of one process."""
    calls = {name: np.array([10, 30, 50]) for name in ("start_ns", "end_ns")}
    calls |= {"thread": np.array([0, 1, 0]), "correlation": np.array([4, 4, 4])}
    assert is_shared == shared_ids(np.array(processes), calls).tolist()


def test_without_calls_none_is_shared():
    """Nor where no call has an id."""
    empty = {name: np.array([], dtype=np.int64) for name in ("start_ns", "end_ns", "thread", "correlation")}
    assert [] == shared_ids(np.array([], dtype=np.int64), empty).tolist()
    none = {name: np.array([-1, -1]) for name in empty}
    assert [False, False] == shared_ids(np.array([1, 1]), none).tolist()


def loop(build, first_shared):
    """Two steps of 100 ns: launch 5-9, copy 12-15, record 16-17 and wait 20-65; kernel 10-50, copy 51-55.

    From the call of this number on, of eight, all calls have one id, 99.
    """
    names = ("cudaLaunchKernel", "cudaMemcpyAsync", "cudaEventRecord", "cudaEventSynchronize")
    times = ((5, 9), (12, 15), (16, 17), (20, 65))
    calls, work, ranges, links, records = [], [], [], [], []
    for step in range(2):
        at, first = 100 * step, 4 * step
        for number, (name, (start, end)) in enumerate(zip(names, times, strict=True), start=first):
            calls.append((name, at + start, at + end, 0, 99 if number >= first_shared else number))
        work += [("kernel", at + 10, at + 50, first), ("D2H pinned 8", at + 51, at + 55, first + 1)]
        ranges.append(("step", at, at + 100))
        links.append((first + 3, first + 2, 7, 1, Evidence.PROVED))
        records.append((first + 2, 1, 7))
    return build.a_capture(
        calls, work, ranges, links=links, records=records, overhead=[(0, 2, 3), (0, 102, 103), (0, 106, 107)]
    )


def test_a_capture_whose_ids_are_all_different_stays_itself(build):
    """Nothing is copied."""
    capture = loop(build, 8)
    assert capture is joinable(capture)


def test_a_capture_ends_at_the_first_call_that_shares_its_id(build):
    """Call 4, the launch of the second step at 105: the first step stays, and all that its calls gave the device."""
    capture = loop(build, 4)
    kept = joinable(capture)
    assert (4, 2, 1, 1, 1) == tuple(
        len(table) for table in (kept.api, kept.device, kept.ranges, kept.links, kept.event_records)
    )
    assert ([0, 1], [[3], [2]], [2]) == (
        kept.device["api"].tolist(),
        [kept.links[name].tolist() for name in ("wait", "record")],
        kept.event_records["api"].tolist(),
    )
    assert [2, 102] == kept.overhead["start_ns"].tolist()  # before 105
    assert (
        "calls share their correlation ids from cudaLaunchKernel on, 0.1 µs after the first call: nothing tells what "
        "they issued, so that all from there on is left out",
    ) == kept.limits


def test_work_issued_before_stays_even_if_it_runs_later(build):
    """The last two calls share: the copy of the second step, at 151, was issued by a call with its own id."""
    kept = joinable(loop(build, 6))
    assert (6, [0, 1, 4, 5]) == (len(kept.api), kept.device["api"].tolist())
    assert [100] == kept.ranges["end_ns"].tolist()  # the second step is not whole
    assert ([3], [2]) == (kept.links["wait"].tolist(), kept.event_records["api"].tolist())


@pytest.mark.parametrize(
    ("wait", "record", "left"),
    [(3, 2, 1), (7, 2, 0), (3, 6, 0), (3, -1, 1)],  # the last waits for no record
)
def test_a_link_stays_where_both_of_its_calls_do(build, wait, record, left):
    """Of eight calls those from the fifth on go: what is left names no row that is gone."""
    calls = [("cudaEventSynchronize", at, at + 1, 0, at) for at in range(8)]
    capture = build.a_capture(calls, links=[(wait, record, 7, 1, Evidence.PROVED)])
    assert left == len(joinable(capture, np.arange(8) >= 4).links)


def test_the_name_of_a_call_is_said_fit_for_a_terminal(build):
    """It is the file's."""
    capture = joinable(build.a_capture([("bad\x1b[2J" + "x" * 9_000, at, at, 0, 1) for at in (0, 5)]))
    assert "\x1b" not in capture.limits[0]
    assert len(capture.limits[0]) < 1_000


def test_work_without_a_call_stays_where_it_began_before(build):
    """Of two such rows that at 90, not that at 120."""
    capture = build.a_capture(
        [("cudaLaunchKernel", 5, 9, 0, 1), ("cudaLaunchKernel", 100, 110, 0, 1)],
        [("kernel", 90, 95), ("kernel", 120, 130)],
    )
    assert (0, 0) == (len(joinable(capture).api), len(joinable(capture).device))  # the first call shares already
    told = joinable(capture, np.array([False, True]))
    assert ([90], 1) == (told.device["start_ns"].tolist(), len(told.api))


def test_copies_without_times_end_there_too(build):
    """Only their calls have times."""
    capture = loop(build, 4)
    copies = Table.of_rows(UNTIMED_COPIES, [tuple([call] + [0] * (len(UNTIMED_COPIES) - 1)) for call in (1, 5)])
    assert [1] == joinable(dataclasses.replace(capture, untimed_copies=copies)).untimed_copies["api"].tolist()
