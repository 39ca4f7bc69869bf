"""fdprof.columns: device rows find the host call that issued them."""

# ruff: noqa: SIM300
import numpy as np

from fdprof.columns import join_calls


def test_a_row_finds_the_call_of_its_own_process_and_none_without_an_id():
    """Two processes use id 5; id -1 means none, also where a call's is -1; id 9 has no call."""
    process, correlation = np.array([1, 2, 1]), np.array([5, 5, -1])
    found = join_calls(process, correlation, np.array([2, 1, 1, 1]), np.array([5, 5, -1, 9]))
    assert [1, 0, -1, -1] == found.tolist()
