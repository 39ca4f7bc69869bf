"""The copies between host and device of the steps: issue, copy and wait kept apart, alike ones in one row."""

from dataclasses import dataclass

import numpy as np

from fdprof.analysis.calls import Calls
from fdprof.analysis.intervals import inside
from fdprof.analysis.sites import site_of_calls
from fdprof.analysis.stalls import fences
from fdprof.analysis.steps import Steps
from fdprof.capture import NONE, Capture, CopyDirection, Evidence, HostSide, WorkKind
from fdprof.model import IntColumn

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
    `wait_ns` the waits whose fence covers them: a fence that covers several copies is the wait of each.  `lag` is the
    steps from issue to wait.
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
    copy_ns: float
    wait_ns: float | None
    lag: float | None
    blocking_share: float  # of the calls: in how many the host waited for the copy
    unawaited: int  # non-blocking copies to the host that no wait in the steps covers
    wait_after_ns: float | None  # median from the return of the copy's call to the begin of its wait
    evidence: Evidence


def transfers_of(capture: Capture, calls: Calls, steps: Steps, device: int | None) -> tuple[CaptureTransfer, ...]:
    """Return the transfers that the steps issued, those with most bytes first."""
    if device is None:
        return ()
    work, api = capture.device, capture.api
    is_transfer = (
        (work["kind"] == WorkKind.COPY)
        & (work["device"] == device)
        & np.isin(work["direction"], [int(CopyDirection.TO_HOST), int(CopyDirection.TO_DEVICE)])
    )
    when = np.where(work["api"] != NONE, np.append(api["start_ns"], 0)[work["api"]], work["start_ns"])
    window = inside(steps.starts_ns, steps.ends_ns, when)
    thread = np.append(api["thread"], NONE)[work["api"]]
    rows = np.flatnonzero(is_transfer & (window != NONE) & ((thread == steps.thread) | (work["api"] == NONE)))
    if not len(rows):
        return ()
    call = work["api"][rows]
    site = np.full(len(rows), NONE, dtype=np.int64)
    sites: list[str] = []
    known = call != NONE
    site[known], sites = site_of_calls(capture, call[known], steps)
    key = np.stack([work[name][rows].astype(np.int64) for name in ("direction", "host_side", "size_bytes", "stream")])
    groups, number = np.unique(np.concatenate((site[None, :], key)), axis=1, return_inverse=True)
    number = number.reshape(-1)
    wait = _fence_of(capture, calls, rows)
    found = []
    for group in range(groups.shape[1]):
        where, direction, host_side, size_bytes, stream = groups[:, group].tolist()
        mine = rows[number == group]
        found.append(
            _transfer(
                capture, calls, steps, mine, wait[number == group],
                sites[where] if where != NONE else "(call not in the capture)",
                CopyDirection(direction), HostSide(host_side), size_bytes, stream, device,
            )
        )  # fmt: skip
    return tuple(sorted(found, key=lambda entry: (-entry.bytes_per_step, entry.name)))


def _transfer(
    capture: Capture,
    calls: Calls,
    steps: Steps,
    rows: IntColumn,
    wait: IntColumn,
    name: str,
    direction: CopyDirection,
    host_side: HostSide,
    size_bytes: int,
    stream: int,
    device: int,
) -> CaptureTransfer:
    count = max(len(steps), 1)
    work = capture.device
    call = np.unique(work["api"][rows])
    call = call[call != NONE]
    issue = (calls.end_ns - calls.start_ns)[call]
    blocking = calls.blocks[call]
    waited = wait != NONE
    when = np.append(calls.start_ns, 0)
    # A wait behind the last step is not the steps' time.
    fence = np.unique(wait[waited])
    fence = fence[inside(steps.starts_ns, steps.ends_ns, when[fence]) != NONE]
    issued_in = inside(steps.starts_ns, steps.ends_ns, np.append(calls.start_ns, 0)[work["api"][rows]])
    waited_in = inside(steps.starts_ns, steps.ends_ns, np.append(calls.start_ns, 0)[wait])
    both = waited & (issued_in != NONE) & (waited_in != NONE)
    after = (np.append(calls.start_ns, 0)[wait] - np.append(calls.end_ns, 0)[work["api"][rows]])[waited]
    to_host = direction is CopyDirection.TO_HOST
    call_blocks = np.append(calls.blocks, False)[work["api"][rows]]
    _, _, evidence = fences(capture, fence)
    return CaptureTransfer(
        name=name,
        direction=_DIRECTIONS[direction],
        memory=_MEMORY[host_side],
        size_bytes=size_bytes,
        per_step=len(rows) / count,
        bytes_per_step=max(size_bytes, 0) * len(rows) / count,
        stream=stream,
        is_default_stream=(device, stream) in capture.default_streams,
        issue_ns=float(issue.sum()) / count if len(call) else None,
        copy_ns=float((work["end_ns"] - work["start_ns"])[rows].sum()) / count,
        wait_ns=float((calls.end_ns - calls.start_ns)[fence].sum()) / count if len(fence) else None,
        lag=float((waited_in - issued_in)[both].mean()) if both.any() else (0.0 if blocking.any() else None),
        blocking_share=float(blocking.mean()) if len(call) else 0.0,
        unawaited=int((to_host & (waited_in == NONE) & ~call_blocks & (work["api"][rows] != NONE)).sum()),
        wait_after_ns=float(np.median(after)) if len(after) else None,
        evidence=Evidence(int(evidence.min())) if len(evidence) else Evidence.UNKNOWN,
    )


def _fence_of(capture: Capture, calls: Calls, rows: IntColumn) -> IntColumn:
    """Return for each copy the first wait whose fence covers it: same process and stream, recorded after its issue."""
    api, work = capture.api, capture.device
    result = np.full(len(rows), NONE, dtype=np.int64)
    waits = np.flatnonzero(calls.only_waits)
    if not len(waits):
        return result
    before, stream, _ = fences(capture, waits)
    process = capture.process_of_threads()
    of_wait = process[api["thread"][waits]]
    call = work["api"][rows]
    of_copy = np.where(call != NONE, process[np.append(api["thread"], 0)[call]], NONE)
    issued = np.append(api["start_ns"], 0)[call]
    for one in np.unique(of_copy[call != NONE]).tolist():
        for number in np.unique(work["stream"][rows]).tolist():
            mine = np.flatnonzero((call != NONE) & (of_copy == one) & (work["stream"][rows] == number))
            its = waits[(of_wait == one) & ((stream == number) | (stream == NONE))]
            if not len(mine) or not len(its):
                continue
            limit = before[(of_wait == one) & ((stream == number) | (stream == NONE))]
            order = np.argsort(limit, kind="stable")
            at = np.searchsorted(limit[order], issued[mine], side="right")
            result[mine] = np.where(at < len(its), its[order][np.minimum(at, len(its) - 1)], NONE)
    return result
