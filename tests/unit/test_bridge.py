# ruff: noqa: SIM300 - the expected value stands first
"""fdprof.analysis.bridge: where each ns went, and whether a wait was removed or only moved."""

from dataclasses import replace

import pytest

from fdprof.analysis.bridge import bridge_of, moved_of
from fdprof.analysis.verdict import judge
from fdprof.comparison import Blocked, Verdict, WaitChange


def test_the_bridge_adds_up_to_the_ns(build):
    """Steps of 100 and 101 against 90, 91 and 91 ns; means 100.5 and 90.667, the step -9.833, shown as -10.

    compute 140/2 = 70 to 210/3 = 70: 0; blocked 61/2 = 30.5 to 40/3 = 13.333: -17.167; launch 0 to 22/3: +7.333.
    Whole ns below each: 0, -18, +7, one ns too few; blocked has the largest remainder, 0.833.
    """
    ours = build.a_side([100, 101], parts_ns={"busy:compute": 140, "blocked": 61})
    theirs = build.a_side([90, 91, 91], parts_ns={"busy:compute": 210, "blocked": 40, "launch": 22})
    got = bridge_of(ours, theirs)
    assert {"blocked": -17, "launch": 7, "busy:compute": 0} == got.parts
    assert (-10, 0.0) == (got.step_ns, got.residual_ns)
    assert ["blocked", "launch", "busy:compute"] == list(got.parts)  # the largest first


def test_parts_that_do_not_add_up_leave_a_residual(build):
    """A step of 100 whose parts make 99 in the baseline: 1 ns is not accounted for, and that is shown."""
    ours = build.a_side([100], parts_ns={"busy:compute": 99})
    assert -1.0 == bridge_of(ours, build.a_side([100], parts_ns={"busy:compute": 100})).residual_ns


def test_without_device_rows_there_is_no_bridge(build):
    """Unknown is None."""
    assert bridge_of(build.a_side([1]), build.a_side([1], parts_ns={"busy:compute": 1})) is None


def _moved(build, verdict, ours, theirs):
    """Return what became of (copy, fence) µs of steps of 1 ms."""
    sides = [build.a_side([10**6], blocked=Blocked(1000 * copy, 1000 * fence)) for copy, fence in (ours, theirs)]
    return moved_of(*sides, replace(judge(*sides, 0.01), verdict=verdict))


@pytest.mark.parametrize(
    ("verdict", "ours", "theirs", "change"),
    [
        (Verdict.FASTER, (500, 0), (0, 0), WaitChange.REMOVED),
        (Verdict.FASTER, (500, 0), (0, 400), WaitChange.REMOVED),  # what moved does no harm: the step is shorter
        (Verdict.SAME, (500, 0), (0, 500), WaitChange.MOVED),
        (Verdict.SLOWER, (500, 0), (0, 600), WaitChange.MOVED),
        (Verdict.SAME, (500, 0), (0, 250), WaitChange.MOVED),  # half of it is found again
        (Verdict.SAME, (500, 0), (0, 249), WaitChange.NEITHER),
        (Verdict.INCONCLUSIVE, (500, 0), (0, 500), None),
        (Verdict.FASTER, (500, 0), (0, 495), WaitChange.MOVED),  # shorter by something else: 5 µs less are no reason
        (Verdict.FASTER, (0, 500), (0, 100), WaitChange.REMOVED),  # from the fence
        (Verdict.FASTER, (0, 500), (0, 500), WaitChange.NEITHER),
        (Verdict.SAME, (0, 500), (0, 100), WaitChange.NEITHER),  # blocked less, and something else takes as long
        (Verdict.INCONCLUSIVE, (0, 500), (0, 100), None),
        (Verdict.SAME, (9, 0), (0, 9), WaitChange.NEITHER),  # less than 1 % of the step
        (Verdict.INCONCLUSIVE, (9, 0), (0, 9), WaitChange.NEITHER),
        (Verdict.SLOWER, (0, 100), (500, 0), WaitChange.NEITHER),
    ],
)
def test_a_wait_is_removed_where_step_and_blocked_time_shrink_and_moved_where_it_went_from_copies_to_fences(
    build, verdict, ours, theirs, change
):
    """Blocked time a step in copies and in fences, before and after."""
    got = _moved(build, verdict, ours, theirs)
    assert change is got.change
    assert tuple(1000.0 * of for of in (ours[0], theirs[0])) == got.copy_ns
    assert tuple(1000.0 * of for of in (ours[1], theirs[1])) == got.fence_ns
