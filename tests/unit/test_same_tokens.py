# ruff: noqa: SIM300 - the expected value stands first
"""fdprof.analysis.same_tokens: results first."""

import numpy as np
import pytest

from fdprof.analysis.same_tokens import tokens_equal
from fdprof.comparison import TokenStream


def _stream(rows, last_step=3, groups=("outputs",), **decided_by):
    """Return a stream of (group, value step, digest) rows."""
    group, step, digest = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    return TokenStream({"scenario": "stop_flag", "seed": 0} | decided_by, groups, group, step, digest, last_step)


FOUR = [(0, step, 100 + step) for step in range(4)]


def _compared(build, ours, theirs, right=(True, True)):
    sides = [
        build.a_side([1], label=name, tokens=tokens, is_right=is_right)
        for name, tokens, is_right in zip(("sync", "async"), (ours, theirs), right, strict=True)
    ]
    return tokens_equal(*sides)


def test_equal_digests_are_equal_tokens(build):
    """Four reads of one group on each side."""
    assert (True, "tokens equal (4 reads, alike in all blocks)") == _compared(build, _stream(FOUR), _stream(FOUR))


def test_the_first_difference_is_named(build):
    """Steps 2 and 3 differ."""
    other = [*FOUR[:2], (0, 2, 7), (0, 3, 8)]
    assert (False, "the values of outputs differ at step 2") == _compared(build, _stream(FOUR), _stream(other))


def test_groups_are_held_against_each_other_by_name(build):
    """The same two groups in the other order, with the same digests: equal; with those exchanged: not."""
    rows = [(0, 0, 5), (1, 0, 6)]
    ours = _stream(rows, groups=("flags", "tokens"))
    assert _compared(build, ours, _stream([(0, 0, 6), (1, 0, 5)], groups=("tokens", "flags")))[0]
    assert not _compared(build, ours, _stream(rows, groups=("tokens", "flags")))[0]


def test_a_side_that_contradicts_itself_differs(build):
    """Two blocks read different values at step 1: one of them is not the other side's."""
    assert not _compared(build, _stream([*FOUR, (0, 1, 55)]), _stream(FOUR))[0]


def test_loops_of_different_length_are_compared_before_the_shorter_ones_end(build):
    """The shorter loop's last step, 1, holds its stop: its flag is not the other's there."""
    shorter = [(0, 0, 100), (0, 1, 9)]
    got = _compared(build, _stream(FOUR), _stream(shorter, last_step=1))
    assert (True, "tokens equal (1 read, alike in all blocks)") == got
    assert not _compared(build, _stream(FOUR), _stream([(0, 0, 1), (0, 1, 9)], last_step=1))[0]


def test_what_overran_the_stop_is_not_compared(build):
    """A step behind the last is read by one side only, or holds whatever it holds."""
    assert _compared(build, _stream([*FOUR, (0, 4, 1)]), _stream([*FOUR, (0, 4, 2)]))[0]


def test_a_side_that_is_not_the_references_is_wrong_whatever_its_digests(build):
    """The candidate's values are stale: false, before anything else."""
    got = _compared(build, _stream(FOUR), _stream(FOUR), right=(True, False))
    assert (False, "the values of async are not those of the reference") == got


def test_other_seeds_ask_for_other_tokens(build):
    """Not compared, and that is said; neither equal nor wrong."""
    equal, text = _compared(build, _stream(FOUR), _stream([(0, 0, 1)], seed=1))
    assert equal is None
    assert "seed" in text


@pytest.mark.parametrize("ours_has", [True, False])
def test_a_capture_has_no_tokens(build, ours_has):
    """Unknown is not equal."""
    run, capture = build.a_side([1], tokens=_stream(FOUR), is_right=True), build.a_side([1])
    sides = (run, capture) if ours_has else (capture, run)
    assert tokens_equal(*sides)[0] is None


def test_runs_saved_without_digests_are_equal_by_the_reference(build):
    """Both were found right against the same reference when they were made."""
    empty = _stream([(0, 9, 1)])
    empty = TokenStream(empty.decided_by, empty.groups, *[np.zeros(0, dtype=np.int64)] * 3, 3)
    assert (True, "tokens equal: both sides have those of the reference") == _compared(build, empty, _stream(FOUR))
    unchecked = _compared(build, empty, _stream(FOUR), right=(None, True))
    assert (None, "tokens not compared: not both sides kept what they read") == unchecked


@pytest.mark.parametrize(
    "other",
    [_stream(FOUR, groups=("others",)), _stream([(0, 7, 1)], last_step=9), _stream([(0, 0, 1)], last_step=0)],
)
def test_sides_that_read_nothing_in_common_are_not_equal(build, other):
    """Other groups, other steps, or a loop of one step, which is its end: nothing was compared."""
    equal, text = _compared(build, _stream(FOUR), other)
    assert equal is None
    assert "nothing of the same group and step" in text
