"""fdprof.columns: device rows find the host call that issued them."""

# ruff: noqa: SIM300
import numpy as np
import pytest

from fdprof.columns import join_calls, only_own, shared_ids, shared_limit


def test_a_row_finds_the_call_of_its_own_process_and_none_without_an_id():
    """Two processes use id 5; id -1 means none, also where a call's is -1; id 9 has no call."""
    process, correlation = np.array([1, 2, 1]), np.array([5, 5, -1])
    found = join_calls(process, correlation, np.array([2, 1, 1, 1]), np.array([5, 5, -1, 9]))
    assert [1, 0, -1, -1] == found.tolist()


# Start, end and thread of calls with one id.
AFTER_EACH_OTHER = [(10, 20, 0), (30, 40, 0)]
NESTED = [(10, 20, 0), (12, 18, 0)]
AS_LONG = [(10, 20, 0), (10, 20, 0)]
LONGER_THAN_THE_OUTER = [(10, 20, 0), (12, 21, 0)]
AT_ITS_END = [(10, 20, 0), (20, 21, 0)]
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


def test_two_processes_may_use_one_id():
    """Ids are a process's own; without calls nothing is shared."""
    calls = {name: np.array([10, 30]) for name in ("start_ns", "end_ns")}
    calls |= {"thread": np.array([0, 1]), "correlation": np.array([4, 4])}
    assert [False, False] == shared_ids(np.array([1, 2]), calls).tolist()
    assert [] == shared_ids(np.array([], dtype=np.int64), {name: column[:0] for name, column in calls.items()}).tolist()


def test_what_is_joined_to_a_shared_id_is_joined_to_nothing():
    """Rows 0 and 2 are shared, 1 is not, -1 was joined to nothing before."""
    shared = np.array([True, False, True])
    assert [-1, 1, -1, -1] == only_own(np.array([0, 1, 2, -1]), shared).tolist()
    assert ("2 calls share their correlation ids: what they issued or waited for is not known",) == shared_limit(shared)
    assert () == shared_limit(np.array([False]))
