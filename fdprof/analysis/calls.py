"""What the host calls of a capture turned out to do: which blocked, which belong together, and on what they waited."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fdprof.analysis.groups import rows_by
from fdprof.capture import COPY_KINDS, NONE, WAIT_KINDS, WORK_KINDS, ApiKind, Capture, CopyDirection, WorkKind
from fdprof.model import IntColumn

ONE_STALL_NS = 20_000
"""A copy and the synchronisation that follows it on the same thread within this time are one stall.

`.item()` and `torch.tensor(..., device=)` are such pairs; between the two calls lies only the framework's own code.
"""

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Calls:
    """One entry a row of Capture.api."""

    thread: npt.NDArray[np.int32]
    start_ns: IntColumn
    end_ns: IntColumn
    blocks: Flags  # the host could not go on until the device got somewhere
    only_waits: Flags  # event, stream and device synchronisation
    allocates: Flags
    gives_work: Flags  # a device row is expected of it
    lacks_row: Flags  # it is expected, and is not there
    direction: IntColumn  # CopyDirection of the call's copy
    copy_row: IntColumn  # row of Capture.device of the call's copy, -1: none
    stall: IntColumn  # number of the stall that a blocking call belongs to, -1: it does not block
    copy_before: IntColumn  # the copy's call that a wait belongs to, right before it, -1: none
    _lacking_before: Flags  # the last work issued before it by its process has no device row

    def of_thread(self, thread: int) -> IntColumn:
        """Return the rows of a thread, by start."""
        return np.flatnonzero(self.thread == thread)

    def waits_of_thread(self, thread: int) -> IntColumn:
        """Return the rows of a thread that block, by start."""
        return np.flatnonzero((self.thread == thread) & self.blocks)

    def own_copy(self, rows: IntColumn) -> IntColumn:
        """Return the device row of each call's own copy, or of the copy that a wait belongs to; -1 for none."""
        partner = self.copy_before[rows]
        return np.where(partner != NONE, np.append(self.copy_row, NONE)[partner], self.copy_row[rows])

    def own_direction(self, rows: IntColumn) -> IntColumn:
        """Return the CopyDirection of each call's own copy, or of the copy that a wait belongs to."""
        partner = self.copy_before[rows]
        return self.direction[np.where(partner != NONE, partner, rows)]

    def waits_on_missing(self, rows: IntColumn) -> Flags:
        """Return which of these waits end on work that has no device row."""
        return self._lacking_before[rows]


def calls_of(capture: Capture) -> Calls:
    """Return what each call did."""
    api, device = capture.api, capture.device
    kind = api["kind"]
    count = len(api)
    copy_row, copy_end, direction = _copies(capture)
    has_row = np.zeros(count + 1, dtype=bool)
    has_row[device["api"]] = True
    has_row = has_row[:count]
    only_waits = _is(kind, WAIT_KINDS)
    # By its name, or because it returned only after its own copy had ended, whatever its name.  A copy on the device
    # has no need to (CUDA runtime API, "API synchronization behavior"): an asynchronous one that was overtaken by its
    # copy did not wait for it, and one that is synchronous by its name counts by its time alone (HIP labels a read of
    # one value so).
    returned_late = (copy_row != NONE) & (api["end_ns"] >= copy_end)
    blocks = only_waits | np.where(
        direction == CopyDirection.ON_DEVICE,
        (kind == ApiKind.BLOCKING_COPY) & returned_late,
        (kind == ApiKind.BLOCKING_COPY) | ((kind == ApiKind.COPY) & returned_late),
    )
    blocks &= ~_inside_another(api["thread"], api["end_ns"], blocks)
    gives_work = _is(kind, WORK_KINDS) & ~_while_capturing(capture)
    is_seen = gives_work if capture.times_copies else gives_work & ~_is(kind, COPY_KINDS)
    lacks_row = is_seen & ~has_row & (len(device) > 0)
    stall, copy_before = _stalls(
        api["thread"], api["start_ns"], api["end_ns"], blocks, _is(kind, COPY_KINDS), only_waits
    )
    return Calls(
        thread=api["thread"],
        start_ns=api["start_ns"],
        end_ns=api["end_ns"],
        blocks=blocks,
        only_waits=only_waits,
        allocates=kind == ApiKind.ALLOCATE,
        gives_work=gives_work,
        lacks_row=lacks_row,
        direction=direction,
        copy_row=copy_row,
        stall=stall,
        copy_before=copy_before,
        _lacking_before=_lacking_before(capture, gives_work, lacks_row),
    )


def _inside_another(thread: npt.NDArray[np.int32], end: IntColumn, blocks: Flags) -> Flags:
    """Return which blocking calls lie inside another of their thread: a driver call in its runtime call, one wait."""
    result = np.zeros(len(thread), dtype=bool)
    blocking = np.flatnonzero(blocks)
    for its in rows_by(thread[blocking]).values():
        rows = blocking[its]
        latest = np.maximum.accumulate(end[rows])
        result[rows[1:]] = end[rows[1:]] <= latest[:-1]
    return result


def _is(kind: npt.NDArray[np.int8], wanted: frozenset[ApiKind]) -> Flags:
    return np.isin(kind, [int(entry) for entry in wanted])


def _copies(capture: Capture) -> tuple[IntColumn, IntColumn, IntColumn]:
    """Return for each call its last copy's row (-1: none), when that ended, and its CopyDirection."""
    api, device = capture.api, capture.device
    rows = np.flatnonzero((device["kind"] == WorkKind.COPY) & (device["api"] != NONE))
    # A batched copy has several rows: the last to end is written last.
    rows = rows[np.argsort(device["end_ns"][rows], kind="stable")]
    copy_row = np.full(len(api), NONE, dtype=np.int64)
    copy_row[device["api"][rows]] = rows
    ends = np.append(device["end_ns"], 0)[copy_row]
    direction = np.append(device["direction"], int(CopyDirection.UNKNOWN))[copy_row].astype(np.int64)
    if capture.untimed_copies is not None:
        direction[capture.untimed_copies["api"]] = capture.untimed_copies["direction"]
    return copy_row, ends, direction


def _while_capturing(capture: Capture) -> Flags:
    """Return which calls were made while their thread captured a graph: they give the device nothing to do."""
    begins = _named(capture, "StreamBeginCapture")
    result = np.zeros(len(capture.api), dtype=bool)
    if not begins.any():
        return result
    change = np.where(begins, 1, np.where(_named(capture, "StreamEndCapture"), -1, 0))
    for rows in rows_by(capture.api["thread"]).values():
        depth = np.cumsum(change[rows])
        # A capture that began before the trace ends without a beginning.
        result[rows] = depth > np.minimum(np.minimum.accumulate(depth), 0)
    return result


def _named(capture: Capture, part: str) -> Flags:
    return np.asarray(np.array([part in name for name in capture.names], dtype=bool)[capture.api["name"]])


def _stalls(
    thread: npt.NDArray[np.int32], start: IntColumn, end: IntColumn, blocks: Flags, copies: Flags, only_waits: Flags
) -> tuple[IntColumn, IntColumn]:
    """Return the stall's number of each blocking call, and for a wait the call of the copy that it belongs to."""
    stall = np.full(len(thread), NONE, dtype=np.int64)
    copy_before = np.full(len(thread), NONE, dtype=np.int64)
    rows = np.flatnonzero(blocks | copies)
    rows = rows[np.lexsort((start[rows], thread[rows]))]
    if not len(rows):
        return stall, copy_before
    before, after = rows[:-1], rows[1:]
    follows = np.zeros(len(rows), dtype=bool)
    follows[1:] = (
        (thread[before] == thread[after])
        & copies[before]
        & only_waits[after]
        & (start[after] - end[before] < ONE_STALL_NS)
    )
    copy_before[rows[1:][follows[1:]]] = before[follows[1:]]
    # A copy that did not block itself belongs to a stall only through the wait behind it, and the wait carries it.
    blocking = blocks[rows]
    joins = follows & np.concatenate(([False], blocking[:-1]))
    number = np.cumsum(blocking & ~joins) - 1
    stall[rows[blocking]] = number[blocking]
    return stall, copy_before


def _lacking_before(capture: Capture, gives_work: Flags, lacks_row: Flags) -> Flags:
    """Return for each call whether the last work that its process issued up to it has no device row."""
    result = np.zeros(len(capture.api), dtype=bool)
    process = capture.process_of_threads()[capture.api["thread"]] if len(capture.threads) else result.astype(np.int64)
    for rows in rows_by(process).values():
        last = np.maximum.accumulate(np.where(gives_work[rows], np.arange(len(rows)), -1))
        result[rows] = (last >= 0) & lacks_row[rows][np.maximum(last, 0)]
    return result
