"""Findings about copies that block: to the host, into pageable memory or other, and to the device."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fdprof.analysis.facts import Facts
from fdprof.analysis.sites import is_hidden, placed
from fdprof.analysis.transfers import CaptureTransfer
from fdprof.capture import CopyDirection, Evidence, HostSide
from fdprof.finding import Finding, FindingCode
from fdprof.model import IntColumn
from fdprof.units import size, us

_TO_HOST, _TO_DEVICE = "device to host", "host to device"
_PAGEABLE = "pageable"

FENCE = (
    "copy without blocking into pinned memory, record one event after the last copy, and wait for it where the values "
    "are needed, one step later if they can be; it is the wait that costs, so pinned memory alone gains little"
)
UPLOAD = (
    "upload from pinned memory without blocking, and rewrite that memory only behind an event recorded after the copy; "
    "or make the value on the device"
)


def copy_findings(facts: Facts) -> list[Finding]:
    """Return what the copies that block cost; those in operators and the like are left to the hidden syncs."""
    blocking = [transfer for transfer in facts.transfers if transfer.blocking_share > 0.5]
    seen = [transfer for transfer in blocking if not is_hidden(transfer.name)]
    to_host = [transfer for transfer in seen if transfer.direction == _TO_HOST]
    pageable = [transfer for transfer in to_host if transfer.memory == _PAGEABLE]
    other = [transfer for transfer in to_host if transfer.memory != _PAGEABLE]
    uploads = [transfer for transfer in seen if transfer.direction == _TO_DEVICE]
    hidden = sum(
        transfer.per_step
        for transfer in blocking
        if is_hidden(transfer.name) and (transfer.direction, transfer.memory) == (_TO_HOST, _PAGEABLE)
    )
    memory = ", ".join(sorted({transfer.memory for transfer in other}))
    found = (
        _finding(
            facts,
            FindingCode.PAGEABLE_DESTINATION,
            pageable,
            "to pageable host memory",
            FENCE,
            f"; {hidden:.2f} more a step are among the hidden syncs" if hidden else "",
        ),
        _finding(facts, FindingCode.BLOCKING_COPY, other, f"to host memory ({memory})", FENCE, memory=memory),
        _finding(facts, FindingCode.BLOCKING_UPLOAD, uploads, "to the device", UPLOAD),
    )
    return [finding for finding in found if finding is not None]


def _finding(
    facts: Facts,
    code: FindingCode,
    transfers: Sequence[CaptureTransfer],
    where: str,
    advice: str,
    more: str = "",
    **evidence: Any,
) -> Finding | None:
    count = sum(transfer.per_step for transfer in transfers)
    issue_ns = sum(transfer.issue_ns or 0.0 for transfer in transfers)
    # The waits right behind the copies go with them.
    stall_ns = issue_ns + sum(transfer.behind_ns for transfer in transfers)
    cost = facts.at_most(stall_ns)
    if not transfers or not facts.is_worth(cost, stall_ns):
        return None
    times = [transfer.copy_ns for transfer in transfers]
    copy_ns = None if None in times else sum(time for time in times if time is not None)
    longest = max(transfers, key=lambda transfer: transfer.issue_ns or 0.0)
    what = "" if longest.size_bytes < 0 else f"{size(longest.size_bytes)} "
    return Finding(
        code=code,
        text=f"{count:.2f} copies a step {where} hold the host for {us(issue_ns)} µs"
        + ("" if copy_ns is None else f", in which the device moves their bytes for {us(copy_ns)} µs")
        + more,
        certainty=Evidence.PROVED,
        cost_ns_per_step=cost,
        evidence={"copies_per_step": count, "issue_ns": issue_ns, "stall_ns": stall_ns, "copy_ns": copy_ns, **evidence},
        advice=advice,
        subject=f"{count:.2f} copies a step {where} ({what}{placed(longest.name)})",
        steps=facts.steps_of_calls(_calls_of(facts, transfers)),
    )


def _calls_of(facts: Facts, transfers: Sequence[CaptureTransfer]) -> IntColumn:
    """Return the calls of these transfers that block, and the waits right behind them."""
    calls = facts.calls
    direction = CopyDirection.TO_HOST if transfers[0].direction == _TO_HOST else CopyDirection.TO_DEVICE
    copies = facts.calls_at(
        {transfer.name for transfer in transfers}, calls.blocks & ~calls.only_waits & (calls.direction == direction)
    )
    memory = {transfer.memory for transfer in transfers}
    copies = copies[
        np.isin(host_side_of(facts, copies), [int(side) for side in HostSide if side.name.lower() in memory])
    ]
    waits = facts.calls_in_steps(calls.only_waits & calls.blocks)
    return np.union1d(copies, waits[np.isin(calls.stall[waits], calls.stall[copies])])


def host_side_of(facts: Facts, calls: IntColumn) -> IntColumn:
    """Return the HostSide of each call's copy."""
    capture = facts.capture
    untimed = capture.untimed_copies
    if untimed is None:
        return np.append(capture.device["host_side"], int(HostSide.UNKNOWN))[facts.calls.copy_row[calls]]
    of_call = np.full(len(capture.api), int(HostSide.UNKNOWN), dtype=np.int64)
    of_call[untimed["api"]] = untimed["host_side"]
    return of_call[calls]
