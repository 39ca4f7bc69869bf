"""Puts spans of one lane onto levels, so that those of a level do not overlap: calls and ranges by their depth."""

import heapq

import numpy as np

from fdprof.analysis.intervals import Ns
from fdprof.model import IntColumn


def levels_of(starts: Ns, ends: Ns) -> IntColumn:
    """Return each span's level, from 0; spans come by start, the longer first.

    Nested spans get their depth: 0-10, 1-4 and 5-9 are on 0, 1 and 1.  Where spans overlap that are not nested (ranges
    that end in another order, times that a format rounded), each of that stretch gets the lowest level that is free.
    """
    lasting = ends > starts
    level = np.cumsum(lasting) - lasting - np.searchsorted(np.sort(ends[lasting]), starts, side="right")
    order = np.argsort(level, kind="stable")
    clash = (level[order][1:] == level[order][:-1]) & (starts[order][1:] < ends[order][:-1])
    if clash.any():
        begins = np.append(True, starts[1:] >= np.maximum.accumulate(ends)[:-1])
        stretch = np.cumsum(begins) - 1
        rows = np.flatnonzero(np.isin(stretch, stretch[order[1:][clash]]))
        level[rows] = _lowest_free(starts[rows], ends[rows])
    return np.asarray(level, dtype=np.int64)


def _lowest_free(starts: Ns, ends: Ns) -> list[int]:
    """Return the levels where each span takes the lowest that no open one has."""
    found: list[int] = []
    open_: list[tuple[int, int]] = []  # end and level, the first to end on top
    free: list[int] = []
    levels = 0
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        while open_ and open_[0][0] <= start:
            heapq.heappush(free, heapq.heappop(open_)[1])
        if not free:
            heapq.heappush(free, levels)
            levels += 1
        level = heapq.heappop(free)
        heapq.heappush(open_, (end, level))
        found.append(level)
    return found
