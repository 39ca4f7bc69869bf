"""Findings about fences: too early, none at all, or on an event that was recorded again."""

from collections.abc import Sequence

import numpy as np

from fdprof.analysis.calls import ONE_STALL_NS
from fdprof.analysis.facts import Facts
from fdprof.analysis.intervals import inside
from fdprof.analysis.sites import OUTSIDE, is_hidden
from fdprof.analysis.stalls import fences
from fdprof.analysis.stats import weighted_median
from fdprof.analysis.transfers import CaptureTransfer
from fdprof.capture import NONE, ApiKind, CopyDirection, Evidence
from fdprof.finding import Finding, FindingCode
from fdprof.model import IntColumn
from fdprof.units import counted, us

EVENT_EACH = "a wait covers the latest record only: give each step in flight an event of its own"
DEFER = (
    "launch the next step first and wait for this step's event in it (lag 1), with a ring of buffers deeper than the "
    "lag; what is needed in the same step cannot be put off"
)


def fence_findings(facts: Facts) -> list[Finding]:
    """Return the findings about what guards the copies of the steps."""
    again = _recorded_again(facts)
    found = [_fence_after_copy(facts, again is not None), _no_fence(facts), again]
    return [finding for finding in found if finding is not None]


def _fence_after_copy(facts: Facts, is_recorded_again: bool) -> Finding | None:
    """A wait in the same step as its copies: what the host does between the two is all that overlaps."""
    steps, calls = facts.steps, facts.calls
    waits = facts.calls_in_steps(calls.only_waits)
    work = facts.capture.device
    to_host = calls.direction == CopyDirection.TO_HOST
    copies = facts.calls_in_steps(facts.capture.kinds(ApiKind.COPY) & ~calls.blocks & to_host)
    if not len(waits) or not len(copies):
        return None
    before, stream, evidence = fences(facts.capture, waits)
    window = inside(steps.starts_ns, steps.ends_ns, calls.start_ns[waits])
    # The last copy that the wait covers; a wait that is known for nothing, or is for another step's, is no such fence.
    at = np.full(len(waits), NONE, dtype=np.int64)
    of_copy = np.append(work["stream"], NONE)[calls.copy_row[copies]]
    for number in np.unique(stream).tolist():
        mine, its = stream == number, np.flatnonzero((of_copy == number) | (number == NONE) | (of_copy == NONE))
        last = np.searchsorted(calls.start_ns[copies][its], before[mine], side="left") - 1
        at[mine] = np.where(last >= 0, np.append(its, NONE)[last], NONE)
    issued = np.where(at >= 0, calls.start_ns[copies][at], NONE)
    early = (at >= 0) & (inside(steps.starts_ns, steps.ends_ns, issued) == window) & (evidence != Evidence.UNKNOWN)
    after = calls.start_ns[waits] - calls.end_ns[copies][at]
    # Hidden right behind a copy, as .item() does it, a wait is that copy's own and no fence: see the hidden syncs.
    hidden = {site.site for site in facts.stalls.sites if site.site == OUTSIDE or is_hidden(site.site)}
    is_event = facts.capture.kinds(ApiKind.EVENT_WAIT)[waits]
    early &= is_event | (after >= ONE_STALL_NS) | ~np.isin(waits, facts.calls_at(hidden, calls.only_waits))
    blocked = facts.time_in(waits[early])
    cost = facts.at_most(blocked)
    if not early.any() or not facts.is_worth(cost, blocked):
        return None
    # A step may have several fences: how soon the host comes to those in which it waits longest is what matters.
    between = float(weighted_median(after[early], (calls.end_ns - calls.start_ns)[waits][early]))
    return Finding(
        code=FindingCode.FENCE_AFTER_COPY,
        text=f"the host waits for its copies in the step that issues them, {us(between)} µs after the last of those "
        f"calls (median of the time waited), for {us(blocked)} µs a step (lag 0): only that much host work runs beside "
        "the device",
        certainty=Evidence(int(evidence[early].min())),
        cost_ns_per_step=cost,
        evidence={"wait_ns": blocked, "after_ns": between, "lag": 0, "per_step": int(early.sum()) / len(steps)},
        advice=f"{EVENT_EACH}; then {DEFER}" if is_recorded_again else DEFER,
        subject="the fence",
        steps=facts.steps_of_calls(waits[early]),
    )


def _no_fence(facts: Facts) -> Finding | None:
    unawaited = [transfer for transfer in facts.transfers if transfer.unawaited]
    count = sum(transfer.unawaited for transfer in unawaited)
    issued = sum(transfer.per_step for transfer in unawaited) * len(facts.steps)
    # The last copies of a loop are waited for behind it.
    if not unawaited or count < 0.5 * issued or facts.calls_in_steps(facts.capture.kinds(ApiKind.EVENT_QUERY)).size:
        return None
    return Finding(
        code=FindingCode.NO_FENCE,
        text=f"{count:,} of {issued:,.0f} copies to the host that do not block are followed by no wait in the steps",
        certainty=Evidence.INFERRED,
        cost_ns_per_step=None,
        evidence={"copies": count},
        advice="if the host reads them, wait for an event recorded after the copy first, or it reads old values; "
        "`fdprof run --audit` shows how such reads are found",
        steps=facts.first_steps_of(_copies_to_host(facts, unawaited)),
    )


def _copies_to_host(facts: Facts, transfers: Sequence[CaptureTransfer]) -> IntColumn:
    """Return the calls of these transfers to the host that do not block."""
    calls = facts.calls
    is_copy = facts.capture.kinds(ApiKind.COPY) & ~calls.blocks & (calls.direction == CopyDirection.TO_HOST)
    return facts.calls_at({transfer.name for transfer in transfers}, is_copy)


def _recorded_again(facts: Facts) -> Finding | None:
    """A wait that is linked to a record of its event while an earlier record of it was never waited for."""
    capture = facts.capture
    records, links = capture.event_records, capture.links
    known = links["record"] != NONE
    waited = np.unique(links["record"][known])
    if not len(records) or not len(waited):
        return None
    awaited = np.isin(records["api"], waited)
    events_waited = np.unique(records["event"][awaited])
    lost = records["api"][~awaited & np.isin(records["event"], events_waited)]
    # The last record of an event may be waited for after the capture's end.
    order = np.lexsort((records["api"], records["event"]))
    event, api = records["event"][order], records["api"][order]
    is_last = np.append(event[1:] != event[:-1], True)
    lost = np.setdiff1d(lost, api[is_last])
    # A stream or device that was synchronised before the next record of the event was waited for, too.
    syncs = np.flatnonzero(facts.capture.kinds(ApiKind.STREAM_SYNC) | facts.capture.kinds(ApiKind.DEVICE_SYNC))
    is_lost = np.isin(api[:-1], lost) & (np.searchsorted(syncs, api[:-1]) == np.searchsorted(syncs, api[1:]))
    lost = api[:-1][is_lost]
    lost = np.intersect1d(lost, facts.calls_in_steps(facts.capture.kinds(ApiKind.EVENT_RECORD)))
    if not len(lost):
        return None
    return Finding(
        code=FindingCode.EVENT_RECORDED_AGAIN,
        text=f"{counted(len(lost), 'record')} of awaited events had no wait before the same event was recorded again: "
        f"first in step {facts.steps.label(facts.step_of(int(facts.calls.start_ns[lost[0]])))}",
        certainty=Evidence.INFERRED,
        cost_ns_per_step=None,
        evidence={"records": len(lost)},
        advice=EVENT_EACH,
        steps=facts.first_steps_of(lost),
    )
