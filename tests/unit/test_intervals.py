# ruff: noqa: SIM300 - the expected value stands first
"""fdprof.analysis.intervals against hand-worked cases and a set of single nanoseconds."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fdprof.analysis.intervals import Nesting, covered, distinct, gaps, inside, merged

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


@given(pairs, st.integers(-30, 10), st.integers(0, 60))
@settings(deadline=None)
def test_gaps_are_what_the_union_leaves_of_a_span(rows, first, length):
    """Every ns of first..last is either in the union or in exactly one gap, and no gap is empty."""
    last = first + length
    # Intervals that reach out of the span are not passed: the caller's span holds them all.
    rows = [(start, end) for start, end in rows if first <= start and end <= last]
    found = list(zip(*(column.tolist() for column in gaps(*merged(*_columns(rows)), first, last)), strict=True))
    assert _points([(first, last)]) - _points(rows) == _points(found)
    assert all(start < end for start, end in found)
    assert all(before[1] < after[0] for before, after in itertools.pairwise(found))


def test_gaps_reach_to_both_ends_of_the_span():
    """2-4 and 6-8 leave 0-2, 4-6 and 8-10 of 0-10."""
    starts, ends = gaps(*_columns([(2, 4), (6, 8)]), 0, 10)
    assert [(0, 2), (4, 6), (8, 10)] == list(zip(starts.tolist(), ends.tolist(), strict=True))


def test_nothing_leaves_the_whole_span_and_all_of_it_leaves_no_gap():
    """An idle device has one gap, a busy one has none."""
    assert ([0], [10]) == tuple(column.tolist() for column in gaps(*_columns([]), 0, 10))
    assert ([], []) == tuple(column.tolist() for column in gaps(*_columns([(0, 10)]), 0, 10))


@given(pairs, st.lists(st.integers(-25, 45), max_size=20))
@settings(deadline=None)
def test_inside_names_the_interval_that_holds_a_time(rows, times):
    """A start belongs to its interval, an end does not; -1 where no interval is."""
    starts, ends = merged(*_columns(rows))
    spans = list(zip(starts.tolist(), ends.tolist(), strict=True))
    expected = [next((i for i, (start, end) in enumerate(spans) if start <= t < end), -1) for t in times]
    assert expected == inside(starts, ends, np.array(times, dtype=np.int64)).tolist()


@given(st.lists(st.integers(-5, 5), max_size=20))
@settings(deadline=None)
def test_distinct_gives_each_time_once_and_sorted(times):
    """As a set does."""
    assert sorted(set(times)) == distinct(np.array(times, dtype=np.int64)).tolist()


def _open_ones(rows, time):
    return [number for number, (start, end) in enumerate(rows) if start <= time < end]


def _begun_last(rows, time):
    """Return the open interval begun last; of those begun together the shortest, and of equal ones the last given."""
    return max(_open_ones(rows, time), key=lambda number: (rows[number][0], -rows[number][1], number), default=-1)


def _innermost(rows):
    times = np.arange(-26, 48, dtype=np.int64)
    return [_begun_last(rows, time) for time in times.tolist()], Nesting(*_columns(rows)).innermost(times).tolist()


@given(pairs)
@settings(deadline=None, max_examples=200)
def test_the_innermost_of_any_intervals_is_the_open_one_begun_last(rows):
    """Nested or not, with empty and reversed ones among them."""
    expected, found = _innermost(rows)
    assert expected == found


@st.composite
def nests(draw, low=-20, high=40, depth=1):
    """Intervals as calls make them: each wholly inside or wholly outside each other one."""
    cuts = sorted(draw(st.lists(st.integers(low, high), max_size=4)))
    rows = []
    for start, end in zip(cuts[::2], cuts[1::2], strict=False):
        rows.append((start, end))
        if depth:
            rows += draw(nests(start, end, depth - 1))
    return draw(st.permutations(rows))


@given(nests())
@settings(deadline=None)
def test_the_innermost_of_nested_intervals_is_the_open_one_begun_last(rows):
    """Call stacks, given in any order."""
    expected, found = _innermost(rows)
    assert expected == found


@given(nests())
@settings(deadline=None)
def test_a_parent_is_the_innermost_of_the_intervals_around(rows):
    """Of the open ones at its start, the one before it in the order in which they begin; empty intervals have none."""
    order = sorted(range(len(rows)), key=lambda number: (rows[number][0], -rows[number][1], number))
    expected = []
    for number, (start, end) in enumerate(rows):
        outer = [other for other in order[: order.index(number)] if other in _open_ones(rows, start)]
        expected.append(outer[-1] if outer and end > start else -1)
    found = Nesting(*_columns(rows)).parents().tolist()
    assert expected == found + [-1] * (len(rows) - len(found))


def test_an_outer_interval_is_innermost_again_after_an_inner_one():
    """0-10 around 2-4 and 6-8: at 1, 5 and 9 it is the outer one, at 3 the first inner one, at 10 none."""
    nesting = Nesting(*_columns([(0, 10), (2, 4), (6, 8)]))
    assert [0, 1, 0, 2, 0, -1] == nesting.innermost(np.array([1, 3, 5, 7, 9, 10])).tolist()
    assert [-1, 0, 0] == nesting.parents().tolist()


def test_an_interval_that_outlasts_the_one_around_it_stays_open():
    """0-6 and 4-10 are not nested: at 5 and at 8 the later one is innermost."""
    assert [0, 1, 1, -1] == Nesting(*_columns([(0, 6), (4, 10)])).innermost(np.array([3, 5, 8, 10])).tolist()


def test_no_intervals_hold_no_time():
    """A thread without ranges."""
    nesting = Nesting(*_columns([]))
    assert ([-1, -1], []) == (nesting.innermost(np.array([0, 5])).tolist(), nesting.parents().tolist())
