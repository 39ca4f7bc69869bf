"""Sums over half-open intervals in integer ns, vectorised."""

import numpy as np
import numpy.typing as npt

Ns = npt.NDArray[np.int64]

# From this many times an interval on, `inside` searches the other way round.
_MANY = 8


def merged(starts: Ns, ends: Ns) -> tuple[Ns, Ns]:
    """Return the union of the intervals as sorted, disjoint intervals; touching ones are joined, empty ones dropped."""
    keep = ends > starts
    starts, ends = starts[keep], ends[keep]
    if not len(starts):
        return starts, ends
    if (starts[1:] < starts[:-1]).any():
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
    ends = np.maximum.accumulate(ends)
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


def distinct(times: Ns) -> Ns:
    """Return the times sorted, each once.

    numpy.unique hashes first, which is several times slower here; a stable sort profits from parts that are sorted.
    """
    times = np.sort(times, kind="stable")
    return times[np.append(True, times[1:] != times[:-1])] if len(times) else times


def gaps(starts: Ns, ends: Ns, first: int, last: int) -> tuple[Ns, Ns]:
    """Return what disjoint, sorted intervals leave of first..last, without empty ones."""
    opens = np.concatenate(([first], ends))
    closes = np.concatenate((starts, [last]))
    keep = closes > opens
    return opens[keep], closes[keep]


def inside(starts: Ns, ends: Ns, times: Ns) -> Ns:
    """Return for each time the index of the disjoint, sorted interval that holds it, -1 for none."""
    if not len(starts):
        return np.full(len(times), -1, dtype=np.int64)
    if len(times) > _MANY * len(starts) and not (times[1:] < times[:-1]).any():
        # Where the intervals begin among the times, instead of the other way round: few searches for many times.
        begins = np.searchsorted(times, starts, side="left")
        index = np.repeat(np.arange(-1, len(starts)), np.diff(begins, prepend=0, append=len(times)))
    else:
        index = np.searchsorted(starts, times, side="right") - 1
    return np.where((index >= 0) & (times < ends[np.maximum(index, 0)]), index, -1)


class Nesting:
    """Intervals of one thread, and which is the innermost at a time: of those that are open, the one begun last.

    They are usually nested as calls are; then everything is a few sorted searches.  Where some are not (the two ends of
    a range on different threads, times rounded by a format), they are first cut into stretches without overlap.
    """

    def __init__(self, starts: Ns, ends: Ns) -> None:
        order = np.lexsort((-ends, starts))
        order = order[(ends > starts)[order]]
        self._owner = order
        self._starts, self._ends = starts[order], ends[order]
        self._index_within()
        if len(order) and not self._is_nested():
            self._starts, self._ends, self._owner = _flattened(self._starts, self._ends, self._owner)
            self._index_within()

    def innermost(self, times: Ns) -> Ns:
        """Return for each time the index of the innermost interval, as they were given; -1 where none is open."""
        last = np.searchsorted(self._starts, times, side="right") - 1
        open_ = last + 1 - np.searchsorted(self._sorted_ends, times, side="right")
        found = self._last_of_depth(open_ - 1, last)
        return np.where(open_ > 0, self._owner_of(found), -1)

    def edges(self) -> tuple[Ns, Ns]:
        """Return where the innermost interval may change."""
        return self._starts, self._ends

    def parents(self) -> Ns:
        """Return the interval around each, -1 for none and for the empty ones; only where they are nested."""
        count = len(self._starts)
        found = self._last_of_depth(self._depth - 1, np.arange(count))
        result = np.full(int(self._owner.max()) + 1 if count else 0, -1, dtype=np.int64)
        result[self._owner] = np.where(self._depth > 0, self._owner_of(found), -1)
        return result

    def _index_within(self) -> None:
        count = len(self._starts)
        self._sorted_ends = np.sort(self._ends)
        # Those that began before, less those that had ended.
        self._depth = np.arange(count) - np.searchsorted(self._sorted_ends, self._starts, side="right")
        keys = self._depth * (count + 1) + np.arange(count)
        self._by_depth = np.argsort(keys, kind="stable")
        self._keys = keys[self._by_depth]

    def _last_of_depth(self, depth: Ns, up_to: Ns) -> Ns:
        """Return the position of the last interval of this depth among the first `up_to` + 1."""
        count = len(self._starts)
        at = np.searchsorted(self._keys, depth * (count + 1) + up_to, side="right") - 1
        return self._by_depth[np.maximum(at, 0)] if count else np.zeros(len(depth), dtype=np.int64)

    def _owner_of(self, position: Ns) -> Ns:
        return self._owner[position] if len(self._owner) else np.full(len(position), -1, dtype=np.int64)

    def _is_nested(self) -> bool:
        outer = self._last_of_depth(self._depth - 1, np.arange(len(self._starts)))
        return bool(((self._depth == 0) | (self._ends <= self._ends[outer])).all())


def _flattened(starts: Ns, ends: Ns, owner: Ns) -> tuple[Ns, Ns, Ns]:
    """Return disjoint stretches, each with the interval begun last among those open in it."""
    stretches: list[tuple[int, int, int]] = []
    open_: list[tuple[int, int]] = []  # end and owner, the one begun last on top; ended ones below the top stay
    at = 0

    def advance(to: int | None) -> None:
        """Write the stretches from `at` to the time `to`, or until nothing is open."""
        nonlocal at
        while open_:
            end, mine = open_[-1]
            if end > at:
                until = end if to is None else min(end, to)
                stretches.append((at, until, mine))
                at = until
                if to is not None and at == to:
                    return
            open_.pop()
        if to is not None:
            at = to

    for start, end, mine in zip(starts.tolist(), ends.tolist(), owner.tolist(), strict=True):
        if open_ and start > at:
            advance(start)
        at = start
        open_.append((end, mine))
    advance(None)
    rows = np.array(stretches, dtype=np.int64).reshape(len(stretches), 3)
    rows = rows[rows[:, 1] > rows[:, 0]]
    return rows[:, 0], rows[:, 1], rows[:, 2]
