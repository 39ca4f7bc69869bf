"""Sums over half-open intervals in integer ns, vectorised."""

import numpy as np
import numpy.typing as npt

Ns = npt.NDArray[np.int64]


def merged(starts: Ns, ends: Ns) -> tuple[Ns, Ns]:
    """Return the union of the intervals as sorted, disjoint intervals; touching ones are joined, empty ones dropped."""
    keep = ends > starts
    starts, ends = starts[keep], ends[keep]
    if not len(starts):
        return starts, ends
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    opens = np.concatenate(([True], starts[1:] > ends[:-1]))
    closes = np.concatenate((opens[1:], [True]))
    return starts[opens], ends[closes]


def covered(starts: Ns, ends: Ns, window_starts: Ns, window_ends: Ns) -> Ns:
    """Return how many ns of each window the union of the intervals covers.

    Intervals 0-4 and 3-6 cover 6 of the window 0-10.
    """
    starts, ends = merged(starts, ends)
    return _covered_before(starts, ends, window_ends) - _covered_before(starts, ends, window_starts)


def _covered_before(starts: Ns, ends: Ns, times: Ns) -> Ns:
    """Return how many ns before each time disjoint, sorted intervals cover."""
    if not len(starts):
        return np.zeros(len(times), dtype=np.int64)
    before = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(ends - starts)))
    index = np.searchsorted(starts, times, side="right")
    last_end = np.where(index > 0, ends[np.maximum(index - 1, 0)], times)
    return np.asarray(before[index] - np.maximum(last_end - times, 0), dtype=np.int64)
