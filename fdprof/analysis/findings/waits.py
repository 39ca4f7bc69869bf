"""Findings about waits: those that hide in an operator or a range, and several where one would do."""

import numpy as np

from fdprof.analysis.facts import Facts
from fdprof.analysis.findings.copies import UPLOAD, host_side_of
from fdprof.analysis.sites import OUTSIDE, is_hidden, is_operator, placed
from fdprof.analysis.stalls import SyncSite
from fdprof.api_calls import kind_of, plain_name
from fdprof.capture import ApiKind, Evidence, HostSide
from fdprof.finding import Finding, FindingCode
from fdprof.units import us

KEEP = "keep the value on the device, or take it with the step's other outputs behind their event"
REMOVE = (
    "remove it, or where a result is needed wait for an event recorded after the work that makes it: a device "
    "synchronisation waits for all streams"
)


def wait_findings(facts: Facts) -> list[Finding]:
    """Return the findings about where the step's thread waits, and how often."""
    several = _several(facts)
    return [*_hidden(facts), *([] if several is None else [several])]


def _hidden(facts: Facts) -> list[Finding]:
    found = []
    for site in facts.stalls.sites:
        # An engine's own event wait is no secret; a stream that is synchronised behind its back is, even where no range
        # tells where.
        if kind_of(site.call) is ApiKind.EVENT_WAIT and not is_operator(site.site):
            continue
        if not is_hidden(site.site) and (site.is_copy or site.site != OUTSIDE):
            continue
        cost = facts.at_most(site.blocked_ns)
        if not facts.is_worth(cost, site.blocked_ns):
            continue
        found.append(_hidden_at(facts, site, cost))
    return found


def _hidden_at(facts: Facts, site: SyncSite, cost: float | None) -> Finding:
    inside_ = "" if site.other_work_ns is None else f", {us(site.other_work_ns)} µs of it for work queued before"
    is_its_call = np.array([plain_name(name) == site.call for name in facts.capture.names], dtype=bool)
    rows = facts.calls_at((site.site,), facts.calls.blocks & is_its_call[facts.capture.api["name"]])
    durations = facts.calls.end_ns[rows] - facts.calls.start_ns[rows]
    longest_in = facts.steps.label(facts.step_of(int(facts.calls.start_ns[rows[int(np.argmax(durations))]])))
    memory = sorted({HostSide(side).name.lower() for side in host_side_of(facts, rows).tolist()})
    kind = f" ({', '.join(memory)} memory)" if site.is_copy and memory else ""
    return Finding(
        code=FindingCode.HIDDEN_SYNC,
        text=f"{site.call} {placed(site.site)}{kind}: {site.per_step:.2f} a step, {us(site.blocked_ns)} µs a "
        f"step{inside_}; longest {us(site.max_ns)} µs in step {longest_in}",
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
        subject=f"{site.call} {placed(site.site)}",
        steps=facts.steps_of_calls(rows),
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
    cost = facts.at_most(extra_ns)
    if not len(repeats) or not facts.is_worth(cost, extra_ns):
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
        steps=facts.steps_of_calls(later),
    )
