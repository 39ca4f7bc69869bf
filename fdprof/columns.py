"""Work on the columns of a capture that importers share: names as numbers, joins, order."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fdprof.capture import NONE
from fdprof.model import IntColumn


class Names:
    """Gives each distinct name a number while a capture is read."""

    def __init__(self) -> None:
        self._index: dict[str, int] = {}

    def index(self, name: str) -> int:
        return self._index.setdefault(name, len(self._index))

    def indices(self, names: Sequence[str]) -> npt.NDArray[np.int32]:
        return np.fromiter((self.index(name) for name in names), dtype=np.int32, count=len(names))

    def all(self) -> tuple[str, ...]:
        return tuple(self._index)


def join_calls(
    api_process: IntColumn, api_correlation: IntColumn, process: IntColumn, correlation: IntColumn
) -> IntColumn:
    """Return for each (process, correlation) the first row of API that has both, -1 where none has.

    Correlation ids are unique within a process only; a join on the id alone mixes processes.  A negative correlation
    never matches.
    """
    if not len(api_correlation) or not len(correlation):
        return np.full(len(correlation), NONE, dtype=np.int64)
    mine, wanted = _keys(api_process, api_correlation, process, correlation)
    order = None
    if (mine[1:] < mine[:-1]).any():
        # Calls come by start, so their ids nearly do too, and a stable sort of nearly sorted numbers is fast.
        order = np.argsort(mine, kind="stable")
        mine = mine[order]
    at = np.minimum(np.searchsorted(mine, wanted), len(mine) - 1)
    row = at if order is None else order[at]
    return np.where((mine[at] == wanted) & (correlation >= 0), row, NONE).astype(np.int64)


_CORRELATION_BITS = 39
_PROCESS_BITS = 24


def _keys(
    api_process: IntColumn, api_correlation: IntColumn, process: IntColumn, correlation: IntColumn
) -> tuple[IntColumn, IntColumn]:
    """Return one number for each (process, correlation), equal where both are."""
    processes, correlations = (api_process, process), (api_correlation, correlation)
    if all(
        int(column.min()) >= low and int(column.max()) < (1 << bits) - 1
        for pair, low, bits in ((processes, 0, _PROCESS_BITS), (correlations, NONE, _CORRELATION_BITS))
        for column in pair
    ):
        mine, wanted = ((p << _CORRELATION_BITS) + c for p, c in zip(processes, correlations, strict=True))
        return mine, wanted
    pairs = np.stack((np.concatenate(processes), np.concatenate(correlations)))
    _, number = np.unique(pairs, axis=1, return_inverse=True)
    number = number.reshape(-1).astype(np.int64)
    return number[: len(api_process)], number[len(api_process) :]


def by_start(columns: Mapping[str, npt.NDArray[Any]]) -> tuple[dict[str, npt.NDArray[Any]], IntColumn]:
    """Return the columns in order of start, the longer first, and the order."""
    start, end = columns["start_ns"], columns["end_ns"]
    order = np.arange(len(start), dtype=np.int64)
    if (start[1:] < start[:-1]).any():
        # Tables that are sorted each, as most tools write them, merge fast in a stable sort.
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    if ((start[1:] == start[:-1]) & (end[1:] > end[:-1])).any():
        order = order[np.lexsort((-end.astype(np.int64), start))]
    return {name: column[order] for name, column in columns.items()}, order.astype(np.int64)


def latest_before(
    process: IntColumn, event: IntColumn, time: IntColumn, of_process: IntColumn, of_event: IntColumn, before: IntColumn
) -> IntColumn:
    """Return for each wait the row of the latest record of the same event of its process before it, -1 for none."""
    if not len(event) or not len(of_event):
        return np.full(len(of_event), NONE, dtype=np.int64)
    pairs = np.concatenate((np.stack((process, event)), np.stack((of_process, of_event))), axis=1)
    _, group = np.unique(pairs, axis=1, return_inverse=True)
    group = group.reshape(-1)
    mine, wanted = group[: len(event)], group[len(event) :]
    order = np.lexsort((time, mine))
    # Ranks in time make (group, time) one sortable number.
    times = np.unique(np.concatenate((time, before)))
    key = mine[order] * np.int64(len(times) + 1) + np.searchsorted(times, time[order])
    at = np.searchsorted(key, wanted * np.int64(len(times) + 1) + np.searchsorted(times, before), side="left") - 1
    row = order[np.maximum(at, 0)]
    return np.where((at >= 0) & (mine[row] == wanted) & (of_event != NONE), row, NONE).astype(np.int64)
