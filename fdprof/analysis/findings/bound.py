"""Findings about what the step's length is made of, when it is not transfers."""

import numpy as np

from fdprof.analysis.facts import WORTH_WHILE, Bound, Facts
from fdprof.analysis.idle import HOST_PREFIX, LAUNCH
from fdprof.capture import NONE, ApiKind, Evidence, WorkKind
from fdprof.finding import Finding, FindingCode
from fdprof.model import IntColumn
from fdprof.units import percent, us

# From this share of the host's work on, the calls themselves are what holds the step up.
_LAUNCHES = 0.25


def bound_findings(facts: Facts) -> list[Finding]:
    """Return why the step is as long as it is, where the device or the host alone fills it."""
    if facts.bound is Bound.DEVICE:
        return [_device(facts)]
    if facts.bound is Bound.HOST:
        return [_host(facts)]
    return []


def busiest_host_range(facts: Facts) -> tuple[str, float] | None:
    """Return the range whose host code leaves the device idle longest, and ns a step."""
    ranges = [(name, ns) for name, ns in facts.ledger.mean_causes().items() if name.startswith(HOST_PREFIX)]
    return (ranges[0][0].removeprefix(HOST_PREFIX), ranges[0][1]) if ranges else None


def _device(facts: Facts) -> Finding:
    busy = facts.ledger.device_busy_ns
    busy_ns = 0.0 if busy is None else float(busy.mean())
    work_ns = facts.host_work_ns - facts.unseen_wait_ns
    between = facts.between_queued_ns
    is_balanced = work_ns >= (1 - WORTH_WHILE) * busy_ns
    return Finding(
        code=FindingCode.DEVICE_BOUND,
        text=f"the device is busy {us(busy_ns)} of {us(facts.window_ns)} µs a step "
        f"({percent(busy_ns / facts.window_ns)})"
        + (
            f", and idle {us(between)} µs between work that was queued already"
            if between >= facts.is_worth_saying
            else ""
        )
        + (f", the host nearly as long ({us(work_ns)} µs outside waits)" if is_balanced else ""),
        certainty=Evidence.PROVED,
        cost_ns_per_step=None,
        evidence={"device_busy_ns": busy_ns, "window_ns": facts.window_ns, "gain_ns": facts.gain_ns},
        advice="look at the kernels: no order of copies and waits makes the device's own work shorter"
        + ("; and at the host, or it takes over at once" if is_balanced else ""),
        steps=facts.steps_with_most(busy),
    )


def _given(facts: Facts, launches: IntColumn) -> int:
    """Return how many launches and copies these calls are: one each, but a launch of a run's may be of many kernels."""
    api, work = facts.capture.api, facts.capture.device
    kernels = work["api"][(work["kind"] == WorkKind.KERNEL) & (work["api"] != NONE)]
    each = np.bincount(kernels, minlength=len(api))[launches]
    return int(np.where(api["kind"][launches] == ApiKind.LAUNCH, np.maximum(each, 1), 1).sum())


def _host(facts: Facts) -> Finding:
    launches = facts.calls_in_steps(
        facts.capture.kinds(ApiKind.LAUNCH, ApiKind.GRAPH_LAUNCH, ApiKind.MEMSET, ApiKind.COPY) & ~facts.calls.blocks
    )
    count = _given(facts, launches) / len(facts.steps)
    in_calls = facts.time_in(facts.calls_in_steps(~facts.calls.blocks))
    idle_launch = facts.ledger.causes.get(LAUNCH)
    where = busiest_host_range(facts)
    kernels = facts.capture.kinds(ApiKind.LAUNCH)
    is_launching = np.count_nonzero(kernels[launches]) > 0 and in_calls >= _LAUNCHES * facts.host_work_ns
    per_launch = facts.host_work_ns / count if count else 0.0
    busy = facts.ledger.device_busy_ns
    busy_ns = 0.0 if busy is None else float(busy.mean())
    # Many launches with little device work each: whether the time is in the calls or between them, fewer would help.
    is_launching = is_launching or (count >= 10 and per_launch > busy_ns / count)
    return Finding(
        code=FindingCode.LAUNCH_BOUND if is_launching else FindingCode.HOST_BOUND,
        text=f"the host works {us(facts.host_work_ns)} of {us(facts.window_ns)} µs a step outside waits, "
        f"{us(in_calls)} µs of it inside CUDA calls ({count:.1f} launches and copies a step); the device is busy "
        f"{us(busy_ns)} µs",
        certainty=Evidence.PROVED,
        cost_ns_per_step=None,
        evidence={
            "host_work_ns": facts.host_work_ns,
            "in_calls_ns": in_calls,
            "work_calls_per_step": count,
            "idle_launch_ns": None if idle_launch is None else float(idle_launch.mean()),
            "busiest_range": where[0] if where else None,
            "busiest_range_ns": where[1] if where else None,
            "worth_while_share": WORTH_WHILE,
        },
        advice="launch less: replay the step as a CUDA graph, or fuse its kernels; fencing the copies will not help"
        if is_launching
        else "shorten the host's own code"
        + (f", first in {where[0]!r}" if where and where[0] else "")
        + ", or move it beside the device's work; fencing the copies will not help",
        steps=facts.steps_of_calls(launches)
        if is_launching
        else facts.steps_with_most(facts.ledger.window_ns - facts.ledger.blocked_ns),
    )
