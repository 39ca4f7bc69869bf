"""Findings about streams: copies on the legacy default stream, and waits between streams."""

import numpy as np

from fdprof.analysis.facts import Facts
from fdprof.analysis.idle import QUEUED
from fdprof.analysis.intervals import inside
from fdprof.capture import NONE, ApiKind, CopyDirection, Evidence, WorkKind
from fdprof.finding import Finding, FindingCode
from fdprof.model import IntColumn
from fdprof.units import counted, us


def stream_findings(facts: Facts) -> list[Finding]:
    """Return the findings about streams."""
    return [finding for finding in (_default_stream(facts), _cross_stream(facts)) if finding is not None]


def _default_stream(facts: Facts) -> Finding | None:
    """Copies on the legacy default stream while kernels run on blocking streams: each waits for the others' work."""
    copies = [transfer for transfer in facts.transfers if transfer.is_default_stream]
    work, steps = facts.capture.device, facts.steps
    kernels = (work["kind"] == WorkKind.KERNEL) & (work["device"] == facts.device)
    kernels &= inside(steps.starts_ns, steps.ends_ns, work["start_ns"]) != NONE
    apart = facts.capture.default_streams | facts.capture.non_blocking_streams
    streams = np.unique(work["stream"][kernels]).tolist()
    others = [stream for stream in streams if (facts.device, stream) not in apart]
    blocked = sum((t.issue_ns or 0.0) if t.blocking_share > 0.5 else 0.0 for t in copies)
    if not copies or not others or blocked < facts.is_worth_saying:
        return None
    count = sum(transfer.per_step for transfer in copies)
    known = bool(facts.capture.non_blocking_streams)
    return Finding(
        code=FindingCode.DEFAULT_STREAM,
        text=f"{count:.2f} copies a step run on the legacy default stream, the steps' kernels on "
        f"{counted(len(others), 'other')}: each such copy waits for their work, and later work of theirs for it",
        certainty=Evidence.PROVED if known else Evidence.INFERRED,
        cost_ns_per_step=None,
        evidence={"copies_per_step": count, "other_streams": len(others), "blocked_ns": blocked},
        advice="issue the copies on the stream of the kernels that make the values, or on a stream of their own behind "
        "an event",
        steps=facts.steps_of_calls(_calls_on_default_stream(facts)),
    )


def _calls_on_default_stream(facts: Facts) -> IntColumn:
    """Return the calls in the steps whose copy between host and device runs on the device's default stream."""
    row, between = facts.calls.copy_row, (int(CopyDirection.TO_HOST), int(CopyDirection.TO_DEVICE))
    on_default = [stream for device, stream in facts.capture.default_streams if device == facts.device]
    stream = np.append(facts.capture.device["stream"], NONE)[row]
    return facts.calls_in_steps((row != NONE) & np.isin(stream, on_default) & np.isin(facts.calls.direction, between))


def _cross_stream(facts: Facts) -> Finding | None:
    """Idle time between work of two streams, where streams wait for events, against the copies' own time."""
    if facts.ledger.idle is None or facts.device is None or not facts.capture.times_copies:
        return None
    waits = facts.calls_in_steps(facts.capture.kinds(ApiKind.STREAM_WAIT))
    if not len(waits):
        return None
    idle, work = facts.ledger.idle, facts.capture.device
    rows = np.flatnonzero(work["device"] == facts.device)
    start, end, stream = (work[name][rows] for name in ("start_ns", "end_ns", "stream"))
    queued = idle.cause == QUEUED
    # The work that ends the gap, and the one that ended last before it.
    after = np.searchsorted(start, idle.end_ns[queued], side="left")
    known = after < len(start)
    known &= np.append(start, NONE)[np.minimum(after, len(start))] == idle.end_ns[queued]
    by_end = np.argsort(end, kind="stable")
    before = np.searchsorted(end[by_end], idle.start_ns[queued], side="right") - 1
    known &= before >= 0
    changes = known & (stream[np.minimum(after, len(start) - 1)] != stream[by_end][np.maximum(before, 0)])
    apart = np.zeros(len(queued), dtype=bool)
    apart[np.flatnonzero(queued)[changes]] = True
    spent = float((idle.end_ns - idle.start_ns)[apart].sum()) / len(facts.steps)
    copied = sum(transfer.copy_ns or 0.0 for transfer in facts.transfers)
    if spent < facts.is_worth_saying or spent <= copied:
        return None
    return Finding(
        code=FindingCode.CROSS_STREAM_WAIT,
        text=f"the device idles {us(spent)} µs a step between work of different streams "
        f"({len(waits) / len(facts.steps):.2f} stream waits a step); the copies themselves take {us(copied)} µs",
        certainty=Evidence.INFERRED,
        cost_ns_per_step=spent,
        evidence={"queued_ns": spent, "copy_ns": copied, "stream_waits_per_step": len(waits) / len(facts.steps)},
        advice="small copies are cheaper on the stream that makes the values than behind a wait between streams",
        steps=facts.steps_of_gaps(apart),
    )
