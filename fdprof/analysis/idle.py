"""Gives every nanosecond of an idle device its cause.

A gap is a maximal stretch in which nothing of the device's union runs.  It is judged whole, by the work that ends it
and by what the step's thread did meanwhile, and only then cut at the steps' windows.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fdprof.analysis.calls import Calls
from fdprof.analysis.intervals import Nesting, Ns, distinct, gaps, inside, merged
from fdprof.analysis.labels import OUTSIDE_ALL, labelled
from fdprof.capture import NONE, Capture, RangeKind
from fdprof.model import IntColumn

QUEUED, BLOCKED, ALLOCATE, LAUNCH, NOT_CAPTURED, HOST = range(6)
"""Causes of idle time, in the order in which they apply; NOT_CAPTURED instead of the others where it does."""

HOST_PREFIX = "host:"
CAUSE_NAMES = {
    QUEUED: "queued",
    BLOCKED: "blocked",
    ALLOCATE: "allocate",
    LAUNCH: "launch",
    NOT_CAPTURED: "not captured",
}

MAX_START_LATENCY_NS = 1_000_000
"""Idle time inside a wait beyond which the device must have had work that the capture lacks.

A launch reaches an idle H200 in 6.5 µs and a thread that sleeps in a wait is woken after up to 0.3 ms (p90): neither
explains a millisecond in which the host waits for the device, and the device does nothing.
"""

_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Idle:
    """Stretches of idle device time inside the windows, each with one cause, in order."""

    start_ns: Ns
    end_ns: Ns
    window: IntColumn
    cause: IntColumn  # QUEUED to HOST
    range_name: IntColumn  # of HOST: index into `range_names`
    range_names: tuple[str, ...]

    def per_window(self, windows: int) -> dict[int, Ns]:
        """Return the ns of each cause by window; host code of all ranges is one cause."""
        length = self.end_ns - self.start_ns
        return {
            cause: _summed(self.window[mine], length[mine], windows)
            for cause in range(HOST + 1)
            if (mine := self.cause == cause).any()
        }

    def totals(self, chosen: npt.NDArray[np.bool_] | slice = slice(None)) -> dict[str, int]:
        """Return the ns of each cause over the chosen stretches, host code by its range: 'host:forward'."""
        length = (self.end_ns - self.start_ns)[chosen]
        cause, name = self.cause[chosen], self.range_name[chosen]
        by_cause = _summed(cause, length, HOST + 1)
        is_host = cause == HOST
        by_range = _summed(name[is_host], length[is_host], len(self.range_names))
        found = {CAUSE_NAMES[number]: int(ns) for number, ns in enumerate(by_cause[:HOST].tolist()) if ns}
        return found | {
            f"{HOST_PREFIX}{range_}": int(ns)
            for range_, ns in zip(self.range_names, by_range.tolist(), strict=True)
            if ns
        }


def idle_of(capture: Capture, calls: Calls, device_rows: IntColumn, thread: int, starts_ns: Ns, ends_ns: Ns) -> Idle:
    """Return the idle time of the device whose work is `device_rows`, in these windows, with its causes."""
    gap_start, gap_end, issued = _gaps(capture, device_rows, int(starts_ns[0]), int(ends_ns[-1]))
    queued_from = np.clip(issued, gap_start, gap_end)
    rows = calls.of_thread(thread)
    api_start, api_end = capture.api["start_ns"][rows], capture.api["end_ns"][rows]
    waits = _chosen(api_start, api_end, calls.blocks[rows])
    blocked = merged(*waits)
    allocate = merged(*_chosen(api_start, api_end, calls.allocates[rows]))
    any_call = merged(api_start, api_end)
    labels = (capture.ranges["thread"] == thread) & (capture.ranges["kind"] != RangeKind.FRAME)
    ranges = Nesting(capture.ranges["start_ns"][labels], capture.ranges["end_ns"][labels])
    label, range_names = labelled(capture, capture.ranges["name"][labels])

    # A gap is cut at the windows, where a wait begins or ends, and where the work that ends it had been issued; before
    # that also where a call or a range begins or ends.  Waits that touch are two, so theirs are the unmerged ends.
    judged_start, judged_end = _chosen(gap_start, queued_from, queued_from > gap_start)
    cuts = [times[inside(gap_start, gap_end, times) != NONE] for times in (*waits, starts_ns, ends_ns)]
    cuts += [
        times[inside(judged_start, judged_end, times) != NONE] for times in (*allocate, *any_call, *ranges.edges())
    ]
    cuts.append(queued_from[(queued_from > gap_start) & (queued_from < gap_end)])
    start = distinct(np.concatenate((gap_start, *cuts)))
    gap = inside(gap_start, gap_end, start)
    end = np.minimum(np.append(start[1:], gap_end[-1:]), gap_end[gap])
    window = inside(starts_ns, ends_ns, start)
    counted = window != NONE
    start, end, window, gap = start[counted], end[counted], window[counted], gap[counted]

    cause = np.full(len(start), QUEUED)
    name = np.zeros(len(start), dtype=np.int64)
    rest = np.flatnonzero(start < queued_from[gap])
    at = start[rest]
    judged = np.where(inside(*any_call, at) != NONE, LAUNCH, HOST)
    judged = np.where(inside(*allocate, at) != NONE, ALLOCATE, judged)
    cause[rest] = np.where(inside(*blocked, at) != NONE, BLOCKED, judged)
    # Where every launch has its row, only a long gap can be one whose work is missing.
    long = calls.lacks_row.any() | (gap_end - gap_start > MAX_START_LATENCY_NS)
    rest = np.flatnonzero(long[gap])
    of_gap = (times[gap[rest]] for times in (gap_start, gap_end, queued_from))
    cause[rest[_lacks_work(calls, thread, start[rest], cause[rest], *of_gap)]] = NOT_CAPTURED
    of_host = cause == HOST
    name[of_host] = np.append(label, OUTSIDE_ALL)[ranges.innermost(start[of_host])]
    return Idle(start, end, window, cause, name, tuple(range_names))


def _summed(index: IntColumn, ns: Ns, size: int) -> Ns:
    """Return the sum of ns by index, exact: a float's 53 bits would lose ns only beyond 104 days."""
    return np.bincount(index, weights=ns, minlength=size).astype(np.int64)


def _gaps(capture: Capture, rows: IntColumn, first: int, last: int) -> tuple[Ns, Ns, Ns]:
    """Return the gaps, and when the call that issued the work ending each returned (_NEVER where that is not known)."""
    device, api = capture.device, capture.api
    start, end = device["start_ns"][rows], device["end_ns"][rows]
    busy_start, busy_end = merged(start, end)
    # Gaps at the capture's ends are judged whole too, so they reach as far as the windows or the work does.
    low = min(first, int(busy_start[0])) if len(busy_start) else first
    high = max(last, int(busy_end[-1])) if len(busy_end) else last
    gap_start, gap_end = gaps(busy_start, busy_end, low, high)
    call = device["api"][rows]
    returned = np.where(call != NONE, np.append(api["end_ns"], _NEVER)[call], _NEVER)
    # Rows come by start.  Of several that begin together, the one issued first ended the gap.
    first_of = np.flatnonzero(np.append(start[:1] == start[:1], start[1:] != start[:-1]))
    if len(first_of) < len(start):
        start, returned = start[first_of], np.minimum.reduceat(returned, first_of)
    at = np.searchsorted(start, gap_end, side="left")
    known = at < len(start)
    ended = known & (np.append(start, 0)[np.minimum(at, len(start))] == gap_end)
    return gap_start, gap_end, np.where(ended, np.append(returned, _NEVER)[np.minimum(at, len(start))], _NEVER)


def _lacks_work(
    calls: Calls, thread: int, start: Ns, cause: IntColumn, gap_start: Ns, gap_end: Ns, issued: Ns
) -> npt.NDArray[np.bool_]:
    """Return which stretches lie in a wait that ended on work without a device row.

    `gap_start` and `gap_end` are the gap of each stretch, `issued` when the work that ends it had been issued.

    Either the last work issued before the wait has no device row (proved), or the host waits, the device is idle, and
    neither a start latency nor a wake-up lasts that long.
    """
    rows = calls.waits_of_thread(thread)
    if not len(rows) or not len(start):
        return np.zeros(len(start), dtype=bool)
    wait_start, wait_end = calls.start_ns[rows], calls.end_ns[rows]
    wait = Nesting(wait_start, wait_end).innermost(start)
    lacks = (wait != NONE) & calls.waits_on_missing(rows)[wait] & ((cause == BLOCKED) | (cause == QUEUED))
    # A copy that blocks moves its bytes through host memory before and after its device row; only what it had already
    # queued can be said to wait.
    is_idle_wait = (wait != NONE) & ((cause == QUEUED) | ((cause == BLOCKED) & calls.only_waits[rows][wait]))
    # How long the host waits in the whole gap, and not in a window's part of it.
    begin = np.where(calls.only_waits[rows], wait_start, _NEVER)[wait]
    begin = np.maximum(np.minimum(begin, np.maximum(wait_start[wait], issued)), gap_start)
    idle_wait = np.minimum(wait_end[wait], gap_end) - begin
    return np.asarray(lacks | (is_idle_wait & (idle_wait > MAX_START_LATENCY_NS)))


def _chosen(starts: Ns, ends: Ns, chosen: npt.NDArray[np.bool_]) -> tuple[Ns, Ns]:
    return starts[chosen], ends[chosen]
