# ruff: noqa: SIM300 - the expected value stands first
"""fdprof.analysis.compare: what must be so of both sides before anything is divided."""

import pytest

from fdprof.analysis.compare import compare
from fdprof.comparison import Policy
from fdprof.errors import InputError


@pytest.mark.parametrize("steps", [[0], [0] * 40, [0, 0, 0, 0, 9_000]])
def test_steps_that_take_no_time_are_refused_on_either_side(build, steps):
    """A step of 0 ns gives no ratio: half of them are enough to leave none of the p50."""
    usual, empty = build.a_side([100] * len(steps)), build.a_side(steps, label="mine")
    for sides in ((usual, empty), (empty, usual)):
        with pytest.raises(InputError, match=r"mine: the median of its .* is 0 ns") as caught:
            compare(*sides, Policy())
        assert caught.value.hint


def test_a_few_steps_that_take_no_time_are_not(build):
    """Two markers at one time among whole steps: means 50 and 75, 50 / 75 = 2 / 3 of a step."""
    ours, theirs = build.a_side([100, 0, 100, 100]), build.a_side([0, 100, 50, 50])
    got = compare(ours, theirs, Policy())
    assert pytest.approx(2 / 3) == got.ratios["mean"].value
    assert 0.5 == got.ratios["p50"].value
