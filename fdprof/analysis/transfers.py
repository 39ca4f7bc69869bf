"""The copies between host and device of the steps: issue, copy and wait kept apart, alike ones in one row."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fdprof.analysis.calls import Calls
from fdprof.analysis.groups import NOBODY, rows_by
from fdprof.analysis.intervals import inside
from fdprof.analysis.sites import BETWEEN, OUTSIDE, site_of_calls
from fdprof.analysis.stalls import fences
from fdprof.analysis.steps import Steps
from fdprof.capture import NONE, Capture, CopyDirection, Evidence, HostSide, WorkKind
from fdprof.model import IntColumn

_NEVER = np.iinfo(np.int64).max
_DIRECTIONS = {CopyDirection.TO_HOST: "device to host", CopyDirection.TO_DEVICE: "host to device"}
_MEMORY = {
    HostSide.UNKNOWN: "unknown",
    HostSide.PAGEABLE: "pageable",
    HostSide.PINNED: "pinned",
    HostSide.MANAGED: "managed",
}


@dataclass(frozen=True, slots=True)
class CaptureTransfer:
    """Copies of one size, direction, host memory, stream and site; ns are means per step, None: not observed.

    `issue_ns` is the host inside the calls (a blocking copy waits in there), `copy_ns` the device moving bytes,
    `wait_ns` the waits in the steps whose fence covers such copies, those issued before the first step too: a fence
    that covers several copies is the wait of each.  `lag` is the steps from issue to wait.
    """

    name: str
    direction: str
    memory: str
    size_bytes: int
    per_step: float
    bytes_per_step: float
    stream: int
    is_default_stream: bool
    issue_ns: float | None
    copy_ns: float | None
    wait_ns: float | None
    lag: float | None
    blocking_share: float  # of the calls: in how many the host waited for the copy
    unawaited: int  # non-blocking copies to the host that no wait in the steps covers
    wait_after_ns: float | None  # median from the return of the copy's call to the begin of its wait
    evidence: Evidence
    behind_ns: float  # waits right behind these calls, which are one stall with them


@dataclass(frozen=True, slots=True)
class Copies:
    """One entry a copy.  `device_ns` is None where copies have no times."""

    api: IntColumn  # row of Capture.api, -1: the call is not in the capture
    row: IntColumn  # of Capture.device, -1: copies have no times
    when_ns: IntColumn  # start of the call, or where that is not known of the copy
    direction: IntColumn
    host_side: IntColumn
    size_bytes: IntColumn
    stream: IntColumn
    device_ns: IntColumn | None

    def of(self, rows: IntColumn) -> "Copies":
        known = {name: column for name in _COLUMNS if (column := getattr(self, name)) is not None}
        return replace(self, **{name: column[rows] for name, column in known.items()})


_COLUMNS = tuple(column.name for column in fields(Copies))


def copies_of(capture: Capture, device: int) -> Copies:
    """Return all copies between the host and this device."""
    starts = np.append(capture.api["start_ns"], 0)
    if capture.untimed_copies is not None:
        table = capture.untimed_copies
        stream = np.full(len(table), NONE, dtype=np.int64)
        columns = {name: table[name] for name in ("direction", "host_side", "size_bytes")}
        times = {"row": stream, "when_ns": starts[table["api"]], "stream": stream, "device_ns": None}
        return Copies(api=table["api"], **times, **columns)
    work = capture.device
    rows = np.flatnonzero(
        (work["kind"] == WorkKind.COPY)
        & (work["device"] == device)
        & np.isin(work["direction"], [int(CopyDirection.TO_HOST), int(CopyDirection.TO_DEVICE)])
    )
    api = work["api"][rows]
    when = np.where(api != NONE, starts[api], work["start_ns"][rows])
    columns = {name: work[name][rows] for name in ("direction", "host_side", "size_bytes", "stream")}
    device_ns = work["end_ns"][rows] - work["start_ns"][rows]
    return Copies(api=api, row=rows, when_ns=when, device_ns=device_ns, **columns)


def transfers_of(capture: Capture, calls: Calls, steps: Steps, device: int | None) -> tuple[CaptureTransfer, ...]:
    """Return the transfers that the steps issued, those that hold the host longest first."""
    if device is None:
        return ()
    api = capture.api
    copies = copies_of(capture, device)
    thread = np.append(api["thread"], NONE)[copies.api]
    # In a loop with a lag the first steps wait for copies that were issued before them.
    mine = (copies.when_ns < steps.ends_ns[-1]) & ((thread == steps.thread) | (copies.api == NONE))
    copies = copies.of(np.flatnonzero(mine))
    is_issued = inside(steps.starts_ns, steps.ends_ns, copies.when_ns) != NONE
    if not is_issued.any():
        return ()
    site = np.full(len(copies.api), NONE, dtype=np.int64)
    sites: list[str] = []
    known = copies.api != NONE
    site[known], sites = site_of_calls(capture, copies.api[known], steps)
    site = np.where(is_issued, site, _as_in_a_step(sites, np.unique(site[is_issued]))[site])
    wait = waits_of_copies(capture, calls, copies)
    sure = np.full(len(api) + 1, int(Evidence.UNKNOWN), dtype=np.int64)
    fence = np.unique(wait[wait != NONE])
    sure[fence] = fences(capture, fence)[2]
    only = np.flatnonzero(calls.only_waits & (calls.stall != NONE))
    waited_in_stall = np.zeros(int(calls.stall.max(initial=0)) + 1)
    np.add.at(waited_in_stall, calls.stall[only], (calls.end_ns - calls.start_ns)[only])
    key = (copies.direction, copies.host_side, copies.size_bytes, copies.stream)
    found = []
    for (where, direction, host_side, size_bytes, stream), every in rows_by(site, *key).items():
        its = every[is_issued[every]]
        if not len(its):
            continue
        found.append(
            _transfer(
                capture, calls, steps, copies.of(its), wait[its], _waits_for(calls, copies.of(every), wait[every]),
                sure, waited_in_stall,
                sites[where] if where != NONE else "(call not in the capture)",
                CopyDirection(direction), HostSide(host_side), size_bytes, stream, device,
            )
        )  # fmt: skip
    return tuple(sorted(found, key=lambda entry: (-(entry.issue_ns or 0.0), -entry.bytes_per_step, entry.name)))


def _transfer(
    capture: Capture,
    calls: Calls,
    steps: Steps,
    copies: Copies,
    wait: IntColumn,
    every_wait: IntColumn,
    sure: IntColumn,
    waited_in_stall: npt.NDArray[np.float64],
    name: str,
    direction: CopyDirection,
    host_side: HostSide,
    size_bytes: int,
    stream: int,
    device: int,
) -> CaptureTransfer:
    count = max(len(steps), 1)
    api = copies.api
    call = np.unique(api)
    call = call[call != NONE]
    issue = calls.end_ns[call] - calls.start_ns[call]
    blocking = calls.blocks[call]
    stall = calls.stall[call[blocking]]
    call_blocks = _at(calls.blocks, api)
    waited = (wait != NONE) & ~call_blocks  # a copy that blocks is its own wait
    # A wait behind the last step is not the steps' time.
    fence = every_wait[inside(steps.starts_ns, steps.ends_ns, calls.start_ns[every_wait]) != NONE]
    issued_in = inside(steps.starts_ns, steps.ends_ns, _at(calls.start_ns, api))
    waited_in = inside(steps.starts_ns, steps.ends_ns, _at(calls.start_ns, wait))
    both = waited & (issued_in != NONE) & (waited_in != NONE)
    after = (_at(calls.start_ns, wait) - _at(calls.end_ns, api))[waited]
    to_host = direction is CopyDirection.TO_HOST
    evidence = sure[fence]
    return CaptureTransfer(
        name=name,
        direction=_DIRECTIONS[direction],
        memory=_MEMORY[host_side],
        size_bytes=size_bytes,
        per_step=len(api) / count,
        bytes_per_step=max(size_bytes, 0) * len(api) / count,
        stream=stream,
        is_default_stream=(device, stream) in capture.default_streams,
        issue_ns=float(issue.sum()) / count if len(call) else None,
        copy_ns=None if copies.device_ns is None else float(copies.device_ns.sum()) / count,
        wait_ns=float((calls.end_ns[fence] - calls.start_ns[fence]).sum()) / count if len(fence) else None,
        lag=float((waited_in - issued_in)[both].mean()) if both.any() else (0.0 if blocking.any() else None),
        blocking_share=float(blocking.mean()) if len(call) else 0.0,
        unawaited=int((to_host & (~waited | (waited_in == NONE)) & ~call_blocks & (api != NONE)).sum()),
        wait_after_ns=float(np.median(after)) if len(after) else None,
        evidence=Evidence(int(evidence.min())) if len(evidence) else Evidence.UNKNOWN,
        behind_ns=float(waited_in_stall[np.unique(stall[stall != NONE])].sum()) / count,
    )


def _as_in_a_step(sites: list[str], in_steps: IntColumn) -> IntColumn:
    """Return for each site that of these which it is a step's: outside the steps their own range is a part of a site.

    Where it is none of them, it stays; the last entry, of no site, is none.
    """
    known = {sites[number]: number for number in in_steps.tolist() if number != NONE}
    found = [
        known.get(site, known.get(BETWEEN.join(site.split(BETWEEN)[1:]) or OUTSIDE, number))
        for number, site in enumerate(sites)
    ]
    return np.array([*found, NONE], dtype=np.int64)


def _waits_for(calls: Calls, copies: Copies, wait: IntColumn) -> IntColumn:
    """Return the waits for these copies; a copy that blocks is its own wait."""
    return np.unique(wait[(wait != NONE) & ~_at(calls.blocks, copies.api)])


def waits_of_copies(capture: Capture, calls: Calls, copies: Copies) -> IntColumn:
    """Return for each copy the first wait whose fence covers it: same process and stream, recorded after its issue."""
    api, call = capture.api, copies.api
    result = np.full(len(call), NONE, dtype=np.int64)
    waits = np.flatnonzero(calls.only_waits)
    if not len(waits):
        return result
    before, stream, _ = fences(capture, waits)
    process = capture.process_of_threads()
    of_wait = process[api["thread"][waits]]
    of_copy = np.where(call != NONE, process[np.append(api["thread"], 0)[call]], NONE)
    issued = np.append(api["start_ns"], 0)[call]
    of_stream = rows_by(of_wait, stream)
    for key, mine in rows_by(of_copy, copies.stream).items():
        if key[0] == NONE:
            continue
        # A wait without a stream is for all: of its own stream's and of these the one that returns first.
        returns = np.full((2, len(mine)), _NEVER, dtype=np.int64)
        found = np.full((2, len(mine)), NONE, dtype=np.int64)
        for number, its in enumerate((of_stream.get(key, NOBODY), of_stream.get((key[0], NONE), NOBODY))):
            if not len(its) or (number and key[1] == NONE):
                continue
            order = its[np.argsort(before[its], kind="stable")]
            at = np.searchsorted(before[order], issued[mine], side="right")
            known = at < len(order)
            # Of all waits whose fence lies behind the issue, the one that returns first.
            ends = api["end_ns"][waits[order]]
            first = _least_from(ends)[at[known]]
            returns[number, known] = ends[first]
            found[number, known] = waits[order][first]
        is_second = (returns[1] < returns[0]) | ((returns[1] == returns[0]) & (found[1] < found[0]))
        result[mine] = np.where(is_second, found[1], found[0])
    return result


def _least_from(values: IntColumn) -> IntColumn:
    """Return for each position that of the least value from there on."""
    backwards = values[::-1]
    least = np.minimum.accumulate(backwards)
    at = np.maximum.accumulate(np.where(backwards == least, np.arange(len(values)), 0))
    return len(values) - 1 - at[::-1]


def _at(column: npt.NDArray[Any], rows: IntColumn) -> npt.NDArray[Any]:
    """Return the values of these rows, 0 for -1."""
    return np.where(rows == NONE, 0, column[np.maximum(rows, 0)]).astype(column.dtype) if len(column) else rows * 0
