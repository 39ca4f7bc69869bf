"""Findings about waits: copies that block, fences too early, syncs that an op hides, waits that could be one."""

import re
from collections.abc import Sequence

import numpy as np

from fdprof.analysis.calls import ONE_STALL_NS, Flags
from fdprof.analysis.facts import Facts
from fdprof.analysis.intervals import inside
from fdprof.analysis.sites import BETWEEN, OUTSIDE
from fdprof.analysis.stalls import SyncSite, fences
from fdprof.analysis.transfers import CaptureTransfer
from fdprof.api_calls import kind_of
from fdprof.capture import NONE, ApiKind, CopyDirection, Evidence
from fdprof.finding import Finding, FindingCode
from fdprof.units import counted, size, us

# A wait in a person's range of such a name is meant to be there: it is a fence, and not hidden.
_MEANT = re.compile(r"fence|sync|wait|transfer|copy|d2h|h2d|save_output|to_cpu", re.IGNORECASE)
# An operator's name has a namespace, and an operator that waits hides it: aten::copy_, aten::item.
_OPERATOR = "::"
_TO_HOST = "device to host"

FENCE = (
    "copy without blocking into pinned memory, record one event after the last copy, and wait for it where the values "
    "are needed, one step later if they can be; it is the wait that costs, so pinned memory alone gains little"
)
UPLOAD = (
    "upload from pinned memory without blocking, and rewrite that memory only behind an event recorded after the copy; "
    "or make the value on the device"
)
KEEP = "keep the value on the device, or take it with the step's other outputs behind their event"
REMOVE = (
    "remove it, or where a result is needed wait for an event recorded after the work that makes it: a device "
    "synchronisation waits for all streams"
)
EVENT_EACH = "a wait covers the latest record only: give each step in flight an event of its own"
DEFER = (
    "launch the next step first and wait for this step's event in it (lag 1), with a ring of buffers deeper than the "
    "lag; what is needed in the same step cannot be put off"
)


def wait_findings(facts: Facts) -> list[Finding]:
    """Return the findings about how the step's thread waits."""
    found = [
        _pageable(facts),
        _blocking_copies(facts),
        _uploads(facts),
        _fence_after_copy(facts),
        *_hidden(facts),
        _several(facts),
        _no_fence(facts),
        _recorded_again(facts),
        _allocations(facts),
    ]
    return [finding for finding in found if finding is not None]


def at_most(facts: Facts, blocked_ns: float) -> float | None:
    """Return what removing this blocking could gain: the host gets no more back, and the step has a limit."""
    return None if facts.gain_ns is None else min(blocked_ns, facts.gain_ns)


def is_worth(facts: Facts, cost_ns: float | None, blocked_ns: float) -> bool:
    return (blocked_ns if cost_ns is None else cost_ns) >= facts.is_worth_saying and blocked_ns > 0


def _blocking_transfers(
    facts: Facts, direction: str, memory: str | None = None, *, hidden: bool = False
) -> list[CaptureTransfer]:
    return [
        transfer
        for transfer in facts.transfers
        if transfer.direction == direction
        and transfer.blocking_share > 0.5
        and _is_hidden(transfer.name) == hidden  # the findings about hidden syncs have those
        and (memory is None or transfer.memory == memory)
    ]


def _total(transfers: Sequence[CaptureTransfer]) -> tuple[float, float, float, float]:
    """Return copies, device ns, issue ns and stall ns a step: the issue, and the waits right behind it."""
    issue_ns = sum(transfer.issue_ns or 0.0 for transfer in transfers)
    return (
        sum(transfer.per_step for transfer in transfers),
        sum(transfer.copy_ns for transfer in transfers),
        issue_ns,
        issue_ns + sum(transfer.behind_ns for transfer in transfers),
    )


def _in(transfers: Sequence[CaptureTransfer]) -> str:
    """Return where the longest of these transfers is issued, and its size."""
    if not transfers:
        return ""
    longest = max(transfers, key=lambda transfer: transfer.issue_ns or 0.0)
    return f" ({size(max(longest.size_bytes, 0))} {_at(longest.name)})"


def _pageable(facts: Facts) -> Finding | None:
    transfers = _blocking_transfers(facts, _TO_HOST, "pageable")
    count, copy_ns, issue_ns, stall_ns = _total(transfers)
    others = sum(t.per_step for t in _blocking_transfers(facts, _TO_HOST, "pageable", hidden=True))
    moving = f", in which the device moves their bytes for {us(copy_ns)} µs"
    if not facts.capture.traces_copies:
        copies = [site for site in facts.stalls.sites if site.is_copy]
        count = sum(site.per_step for site in copies)
        issue_ns = stall_ns = sum(site.blocked_ns for site in copies)
        moving = ""
    cost = at_most(facts, stall_ns)
    if not is_worth(facts, cost, stall_ns):
        return None
    return Finding(
        code=FindingCode.PAGEABLE_DESTINATION,
        text=f"{count:.2f} copies a step to pageable host memory hold the host for {us(issue_ns)} µs{moving}"
        + (f"; {others:.2f} more a step are among the hidden syncs" if others else ""),
        certainty=Evidence.PROVED,
        cost_ns_per_step=cost,
        evidence={
            "copies_per_step": count,
            "issue_ns": issue_ns,
            "copy_ns": copy_ns if facts.capture.traces_copies else None,
        },
        advice=FENCE,
        subject=f"{count:.2f} copies a step to pageable memory{_in(transfers)}",
    )


def _blocking_copies(facts: Facts) -> Finding | None:
    """Copies to the host that block though their memory is not pageable, or not known."""
    transfers = [t for t in _blocking_transfers(facts, _TO_HOST) if t.memory != "pageable"]
    count, copy_ns, issue_ns, stall_ns = _total(transfers)
    cost = at_most(facts, stall_ns)
    if not is_worth(facts, cost, stall_ns):
        return None
    memory = ", ".join(sorted({transfer.memory for transfer in transfers}))
    return Finding(
        code=FindingCode.BLOCKING_COPY,
        text=f"{count:.2f} blocking copies a step to host memory ({memory}) hold the host for {us(issue_ns)} µs, in "
        f"which the device moves their bytes for {us(copy_ns)} µs",
        certainty=Evidence.PROVED,
        cost_ns_per_step=cost,
        evidence={"copies_per_step": count, "issue_ns": issue_ns, "copy_ns": copy_ns, "memory": memory},
        advice=FENCE,
        subject=f"{count:.2f} blocking copies a step{_in(transfers)}",
    )


def _uploads(facts: Facts) -> Finding | None:
    transfers = _blocking_transfers(facts, "host to device")
    count, copy_ns, issue_ns, stall_ns = _total(transfers)
    cost = at_most(facts, stall_ns)
    if not is_worth(facts, cost, stall_ns):
        return None
    return Finding(
        code=FindingCode.BLOCKING_UPLOAD,
        text=f"{count:.2f} copies a step to the device hold the host for {us(issue_ns)} µs "
        f"({us(copy_ns)} µs of copying)",
        certainty=Evidence.PROVED,
        cost_ns_per_step=cost,
        evidence={"copies_per_step": count, "issue_ns": issue_ns, "copy_ns": copy_ns},
        advice=UPLOAD,
        subject=f"{count:.2f} copies a step to the device{_in(transfers)}",
    )


def _fence_after_copy(facts: Facts) -> Finding | None:
    """A wait in the same step as its copies: what the host does between the two is all that overlaps."""
    steps, calls = facts.steps, facts.calls
    waits = facts.calls_in_steps(calls.only_waits)
    work = facts.capture.device
    to_host = np.append(work["direction"], 0)[calls.copy_row] == CopyDirection.TO_HOST
    copies = facts.capture.kinds(ApiKind.COPY) & ~calls.blocks & (to_host | (not facts.capture.traces_copies))
    copies = facts.calls_in_steps(copies)
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
    # Right behind a copy that it belongs to, as .item() does it, a wait is that copy's own and no fence of the step.
    is_event = facts.capture.kinds(ApiKind.EVENT_WAIT)[waits]
    early &= is_event | (calls.start_ns[waits] - calls.end_ns[copies][at] >= ONE_STALL_NS)
    blocked = facts.time_in(waits[early])
    cost = at_most(facts, blocked)
    if not early.any() or not is_worth(facts, cost, blocked):
        return None
    between = float(np.median((calls.start_ns[waits] - calls.end_ns[copies][at])[early]))
    return Finding(
        code=FindingCode.FENCE_AFTER_COPY,
        text=f"the host waits for its copies in the step that issues them, {us(between)} µs after the last of those "
        f"calls (median), for {us(blocked)} µs a step (lag 0): only that much host work runs beside the device",
        certainty=Evidence(int(evidence[early].min())),
        cost_ns_per_step=cost,
        evidence={"wait_ns": blocked, "after_ns": between, "lag": 0, "per_step": int(early.sum()) / len(steps)},
        advice=DEFER if _recorded_again(facts) is None else f"{EVENT_EACH}; then {DEFER}",
        subject="the fence",
    )


def _is_hidden(site: str) -> bool:
    """Return whether a wait there is hidden: in an operator or a person's range, none of which is meant for waits."""
    ranges = [] if site == OUTSIDE else site.split(BETWEEN)
    return bool(ranges) and not any(_OPERATOR not in name and _MEANT.search(name) for name in ranges)


def _hidden(facts: Facts) -> list[Finding]:
    found = []
    for site in facts.stalls.sites:
        # An engine's own event wait is no secret; a stream that is synchronised behind its back is, even where no range
        # tells where.
        if kind_of(site.call) is ApiKind.EVENT_WAIT and _OPERATOR not in site.site:
            continue
        if not _is_hidden(site.site) and (site.is_copy or site.site != OUTSIDE):
            continue
        cost = at_most(facts, site.blocked_ns)
        if not is_worth(facts, cost, site.blocked_ns):
            continue
        found.append(_hidden_at(facts, site, cost))
    return found


def _at(site: str) -> str:
    return site if site == OUTSIDE else f"in {site}"


def _hidden_at(facts: Facts, site: SyncSite, cost: float | None) -> Finding:
    inside_ = "" if site.other_work_ns is None else f", {us(site.other_work_ns)} µs of it for work queued before"
    memory = sorted({t.memory for t in facts.transfers if t.name == site.site and t.blocking_share > 0.5})
    kind = f" ({', '.join(memory)} memory)" if site.is_copy and memory else ""
    return Finding(
        code=FindingCode.HIDDEN_SYNC,
        text=f"{site.call} {_at(site.site)}{kind}: {site.per_step:.2f} a step, {us(site.blocked_ns)} µs a "
        f"step{inside_}; longest {us(site.max_ns)} µs in step {site.max_step}",
        certainty=Evidence.PROVED,
        cost_ns_per_step=cost,
        evidence={
            "call": site.call,
            "site": site.site,
            "per_step": site.per_step,
            "blocked_ns": site.blocked_ns,
            "own_copy_ns": site.own_copy_ns,
            "harmful_ns": site.harmful_ns,
            "max_ns": site.max_ns,
            "max_step": site.max_step,
        },
        advice=UPLOAD if site.to_device else REMOVE if kind_of(site.call) is ApiKind.DEVICE_SYNC else KEEP,
        subject=f"{site.call} {_at(site.site)}",
    )


def _several(facts: Facts) -> Finding | None:
    """Stalls with no work given to the device between them wait for the same queue, one after the other."""
    every = rows = facts.calls_in_steps(facts.calls.blocks)
    if len(rows) < 2 or facts.stalls.stalls_per_step <= 1:
        return None
    issued = np.cumsum(facts.calls.gives_work & ~facts.calls.blocks & (facts.calls.thread == facts.steps.thread))
    # A copy to the host that is itself waited for gives the device nothing that the next wait would have to wait for.
    stall = facts.calls.stall[rows]
    first = np.concatenate(([True], stall[1:] != stall[:-1]))
    rows, stall = rows[first], stall[first]
    repeats = np.flatnonzero(issued[rows[1:]] == issued[rows[:-1]])
    steps = len(facts.steps)
    later = every[np.isin(facts.calls.stall[every], stall[1:][repeats])]
    extra_ns = facts.time_in(later)
    cost = at_most(facts, extra_ns)
    if not len(repeats) or not is_worth(facts, cost, extra_ns):
        return None
    return Finding(
        code=FindingCode.SEVERAL_WAITS,
        text=f"{facts.stalls.stalls_per_step:.2f} stalls a step, {len(repeats) / steps:.2f} of them behind another "
        f"with no device work between: {us(extra_ns)} µs a step",
        certainty=Evidence.PROVED,
        cost_ns_per_step=cost,
        evidence={
            "stalls_per_step": facts.stalls.stalls_per_step,
            "extra_per_step": len(repeats) / steps,
            "extra_ns": extra_ns,
        },
        advice="issue all copies first, record one event after the last, and wait once",
        subject="several waits",
    )


def _no_fence(facts: Facts) -> Finding | None:
    unawaited = [transfer for transfer in facts.transfers if transfer.unawaited]
    count = sum(transfer.unawaited for transfer in unawaited)
    issued = sum(transfer.per_step for transfer in unawaited) * len(facts.steps)
    # The last copies of a loop are waited for behind it.
    if not unawaited or count < 0.5 * issued or facts.calls_in_steps(_kind(facts, ApiKind.EVENT_QUERY)).size:
        return None
    return Finding(
        code=FindingCode.NO_FENCE,
        text=f"{count:,} of {issued:,.0f} copies to the host that do not block are followed by no wait in the steps",
        certainty=Evidence.INFERRED,
        cost_ns_per_step=None,
        evidence={"copies": count},
        advice="if the host reads them, wait for an event recorded after the copy first, or it reads old values; "
        "`fdprof run --audit` shows how such reads are found",
    )


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
    syncs = np.flatnonzero(_kind(facts, ApiKind.STREAM_SYNC) | _kind(facts, ApiKind.DEVICE_SYNC))
    is_lost = np.isin(api[:-1], lost) & (np.searchsorted(syncs, api[:-1]) == np.searchsorted(syncs, api[1:]))
    lost = api[:-1][is_lost]
    lost = np.intersect1d(lost, facts.calls_in_steps(_kind(facts, ApiKind.EVENT_RECORD)))
    if not len(lost):
        return None
    return Finding(
        code=FindingCode.EVENT_RECORDED_AGAIN,
        text=f"{counted(len(lost), 'record')} of awaited events had no wait before the same event was recorded again: "
        f"first in step {facts.step_of(int(facts.calls.start_ns[lost[0]]))}",
        certainty=Evidence.INFERRED,
        cost_ns_per_step=None,
        evidence={"records": len(lost)},
        advice=EVENT_EACH,
    )


def _allocations(facts: Facts) -> Finding | None:
    rows = facts.calls_in_steps(facts.calls.allocates)
    if not len(rows):
        return None
    spent = facts.time_in(rows)
    durations = (facts.calls.end_ns - facts.calls.start_ns)[rows]
    longest = int(np.argmax(durations))
    # One allocation of 12 ms in a hundred steps hides in the mean and is what the slowest step is made of.
    if spent < facts.is_worth_saying and durations[longest] < 0.1 * facts.window_ns:
        return None
    names = np.bincount(facts.capture.api["name"][rows], weights=durations)
    call = facts.capture.names[int(np.argmax(names))]
    where = facts.step_of(int(facts.calls.start_ns[rows[longest]]))
    return Finding(
        code=FindingCode.ALLOCATION_IN_STEP,
        text=f"{len(rows) / len(facts.steps):.2f} allocations or frees a step (most time: {call}), "
        f"{us(spent)} µs a step; longest {us(int(durations[longest]))} µs in step {where}",
        certainty=Evidence.PROVED,
        cost_ns_per_step=spent,
        evidence={
            "per_step": len(rows) / len(facts.steps),
            "ns": spent,
            "max_ns": int(durations[longest]),
            "max_step": where,
        },
        advice="allocate and page-lock before the loop and use the memory again; page-locking may wait for the device",
        subject=f"{call} in the step",
    )


def _kind(facts: Facts, kind: ApiKind) -> Flags:
    return facts.capture.kinds(kind)
