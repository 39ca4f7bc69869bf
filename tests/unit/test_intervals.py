# ruff: noqa: SIM300 - the expected value stands first
"""fdprof.analysis.intervals against hand-worked cases and a set of single nanoseconds."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fdprof.analysis.intervals import covered, merged

pairs = st.lists(st.tuples(st.integers(-20, 40), st.integers(-20, 40)), max_size=12)
windows = st.lists(st.tuples(st.integers(-25, 45), st.integers(0, 30)), min_size=1, max_size=6)


def _columns(rows):
    matrix = np.array(rows, dtype=np.int64).reshape(len(rows), 2)
    return matrix[:, 0], matrix[:, 1]


def _points(rows):
    return {ns for start, end in rows for ns in range(start, end)}


def test_overlapping_intervals_merge_and_separate_ones_stay():
    """0-4 and 3-6 become 0-6; 8-9 stays apart; the order given does not matter."""
    starts, ends = merged(*_columns([(8, 9), (3, 6), (0, 4)]))
    assert [(0, 6), (8, 9)] == list(zip(starts.tolist(), ends.tolist(), strict=True))


def test_touching_intervals_are_joined():
    """Half-open 0-4 and 4-7 leave no ns between them."""
    starts, ends = merged(*_columns([(0, 4), (4, 7)]))
    assert [(0, 7)] == list(zip(starts.tolist(), ends.tolist(), strict=True))


def test_an_interval_inside_another_does_not_end_it():
    """After 0-10, the short 2-3 must not cut the union at 3."""
    starts, ends = merged(*_columns([(0, 10), (2, 3), (5, 6)]))
    assert [(0, 10)] == list(zip(starts.tolist(), ends.tolist(), strict=True))


def test_empty_and_reversed_intervals_are_dropped():
    """5-5 and 9-7 hold no ns."""
    starts, ends = merged(*_columns([(5, 5), (9, 7)]))
    assert (0, 0) == (len(starts), len(ends))


def test_covered_counts_overlap_once():
    """Intervals 0-4 and 3-6 cover 6 of the window 0-10."""
    assert [6] == covered(*_columns([(0, 4), (3, 6)]), *_columns([(0, 10)])).tolist()


def test_covered_is_clipped_at_both_edges_of_each_window():
    """5-15 covers 5 of 0-10, 5 of 10-20, all of 6-8, none of 15-20 and none of 0-5."""
    spans = _columns([(0, 10), (10, 20), (6, 8), (15, 20), (0, 5)])
    assert [5, 5, 2, 0, 0] == covered(*_columns([(5, 15)]), *spans).tolist()


def test_no_intervals_cover_nothing():
    """An idle device has a busy time of 0 in each window."""
    assert [0, 0] == covered(*_columns([]), *_columns([(0, 10), (10, 20)])).tolist()


def test_absolute_ns_are_exact():
    """Times near 1.7e18 ns do not pass through floating point: 1 ns stays 1 ns."""
    at = 1_700_000_000_000_000_001
    assert [1] == covered(*_columns([(at, at + 1)]), *_columns([(at - 5, at + 5)])).tolist()


@given(pairs)
@settings(deadline=None)
def test_merged_is_the_union_sorted_and_disjoint(rows):
    """The result holds the same ns as the input, with a gap of at least 1 ns between intervals."""
    starts, ends = merged(*_columns(rows))
    result = list(zip(starts.tolist(), ends.tolist(), strict=True))
    assert _points(rows) == _points(result)
    assert all(before[1] < after[0] for before, after in itertools.pairwise(result))


@given(pairs, windows)
@settings(deadline=None)
def test_covered_equals_counting_single_ns(rows, drawn_windows):
    """For every window, the answer is the number of ns in both the union and the window."""
    spans = [(start, start + length) for start, length in drawn_windows]
    points = _points(rows)
    assert [len(points & _points([span])) for span in spans] == covered(*_columns(rows), *_columns(spans)).tolist()
