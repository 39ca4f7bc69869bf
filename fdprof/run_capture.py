"""A run as a Capture, so that one ledger serves both.

The recorder knows the host's calls and the kernels' own stamps; it has no tracer, so the device intervals of copies are
not in it and a gap ends with the next kernel.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fdprof.capture import (
    API,
    DEVICE,
    EVENT_RECORDS,
    LINKS,
    NONE,
    OVERHEAD,
    RANGES,
    UNTIMED_COPIES,
    ApiKind,
    Capture,
    CopyDirection,
    Device,
    Evidence,
    HostSide,
    RangeKind,
    Thread,
    WorkKind,
)
from fdprof.columns import Names, by_start
from fdprof.model import Block, CallKind, CallSite, Direction, IntColumn, Memory, Run, Table

_LIMITS = (
    "a run has no tracer: copies have no device interval, so the device's time in them counts as idle",
    "a call here is one of fdprof's operations, which may be several CUDA calls: a launch of a forward pass is one",
)

_KINDS = {
    CallKind.LAUNCH: ApiKind.LAUNCH,
    CallKind.COPY: ApiKind.COPY,
    CallKind.BLOCKING_COPY: ApiKind.BLOCKING_COPY,
    CallKind.RECORD: ApiKind.EVENT_RECORD,
    CallKind.WAIT: ApiKind.EVENT_WAIT,
    CallKind.ALLOCATE: ApiKind.ALLOCATE,
}
"""Reads and writes of host memory are no calls into CUDA: they are host code."""

_DIRECTIONS = {Direction.TO_HOST: CopyDirection.TO_HOST, Direction.TO_DEVICE: CopyDirection.TO_DEVICE}
_HOST_SIDES = {Memory.PAGEABLE: HostSide.PAGEABLE, Memory.PINNED: HostSide.PINNED, Memory.MAPPED: HostSide.PINNED}

_BY_NAME = {"stream_wait": ApiKind.STREAM_WAIT, "synchronize": ApiKind.STREAM_SYNC}


def capture_of(run: Run) -> Capture:
    """Return everything that a run's blocks recorded, as one capture on the host's clock."""
    names = Names()
    api = [_calls(block, run, names) for block in run.blocks]
    before = np.cumsum([0, *(len(part["name"]) for part in api)])
    api_columns = _joined(api, ("name", "kind", "start_ns", "end_ns"))
    table = Table.of(
        API,
        {
            **api_columns,
            "thread": np.zeros(len(api_columns["name"])),
            "correlation": np.arange(len(api_columns["name"])),
        },
    )
    device = [_kernels(block, run, names, int(first)) for block, first in zip(run.blocks, before, strict=False)]
    ranges = [_ranges(block, names) for block in run.blocks]
    parts = list(zip(run.blocks, api, before.tolist(), strict=False))
    copies = [_copies(block, run, part, first) for block, part, first in parts]
    links = [_links(block, run, part, first) for block, part, first in parts]
    return Capture(
        source="run",
        tool=f"fdprof {run.environment.fdprof}, {run.backend}",
        names=names.all(),
        threads=(Thread(0, 0),),
        devices=(Device(0, 0, run.environment.gpu),),
        api=table,
        device=Table.of(DEVICE, by_start(_joined(device, tuple(DEVICE)))[0]),
        ranges=Table.of(RANGES, by_start(_joined(ranges, tuple(RANGES)))[0]),
        links=Table.of(LINKS, _joined(links, tuple(LINKS))),
        event_records=Table.of_rows(EVENT_RECORDS, []),
        overhead=Table.of_rows(OVERHEAD, []),
        untimed_copies=Table.of(UNTIMED_COPIES, _joined(copies, tuple(UNTIMED_COPIES))),
        asked_limit_ns=run.limit_ns,
        time_error_ns=max((block.clock.error_ns for block in run.blocks), default=0),
        rows=len(table),
        limits=(*_LIMITS, *run.caveats),
    )


def _joined(parts: Sequence[dict[str, Any]], columns: Sequence[str]) -> dict[str, Any]:
    return {name: np.concatenate([part[name] for part in parts] or [np.zeros(0)]) for name in columns}


def _kind(site: CallSite, run: Run) -> int:
    if site.name == "forward" and run.params.get("launch") == "graph":
        return int(ApiKind.GRAPH_LAUNCH)
    if site.kind is CallKind.RECORD or site.kind is CallKind.WAIT:
        return int(_BY_NAME.get(site.name, _KINDS[site.kind]))
    return int(_KINDS.get(site.kind, NONE))


def _calls(block: Block, run: Run, names: Names) -> dict[str, Any]:
    calls, sites = block.log.calls, block.log.call_sites
    kind = np.array([_kind(site, run) for site in sites], dtype=np.int64)[calls["call"]]
    name = np.array([names.index(f"{site.name} {site.subject}".strip()) for site in sites], dtype=np.int64)
    kept = np.flatnonzero(kind != NONE)
    kept = kept[np.argsort(calls["start_ns"][kept], kind="stable")]
    return {
        "name": name[calls["call"][kept]],
        "kind": kind[kept],
        "start_ns": calls["start_ns"][kept],
        "end_ns": calls["end_ns"][kept],
        "step": calls["step"][kept],
        "site": calls["call"][kept],
    }


def _copies(block: Block, run: Run, calls: dict[str, Any], first_call: int) -> dict[str, Any]:
    """Return the copies among the calls; a call that is about no tensor of the run's groups is none."""
    group_of = {tensor.name: (group, tensor) for group in run.groups for tensor in group.tensors}
    known = [
        group_of.get(site.subject) if _kind(site, run) in (ApiKind.COPY, ApiKind.BLOCKING_COPY) else None
        for site in block.log.call_sites
    ]
    rows = np.flatnonzero(np.array([entry is not None for entry in known], dtype=bool)[calls["site"]])
    about = [
        (NONE,) * 3
        if entry is None
        else (
            int(_DIRECTIONS[entry[0].direction]),
            int(_HOST_SIDES.get(run.memory_of(entry[0]), HostSide.UNKNOWN)),
            entry[1].size_bytes,
        )
        for entry in known
    ]
    columns = np.array(about or [(NONE,) * 3], dtype=np.int64)[calls["site"][rows]]
    return {"api": rows + first_call} | dict(
        zip(("direction", "host_side", "size_bytes"), columns.T.reshape(3, -1), strict=True)
    )


def _links(block: Block, run: Run, calls: dict[str, Any], first_call: int) -> dict[str, Any]:
    """Return the waits for a group's values, each with the event record that fences them."""
    waits = block.log.waits
    known = waits["value_step"] >= 0
    start, step, group = waits["start_ns"][known], waits["value_step"][known], waits["group"][known]
    # A wait is a call with the same start.  One row more, of no kind, is for those behind the last call.
    at = np.searchsorted(calls["start_ns"], start)
    is_wait = (np.append(calls["start_ns"], NONE)[at] == start) & (
        np.append(calls["kind"], NONE)[at] == int(ApiKind.EVENT_WAIT)
    )
    record = _records(block, run, calls)
    its = record[group, np.minimum(step, record.shape[1] - 1)]
    chosen = is_wait & (its != NONE)
    count = int(chosen.sum())
    return {
        "wait": at[chosen] + first_call,
        "record": its[chosen] + first_call,
        "stream": np.full(count, NONE),
        "event": np.full(count, NONE),
        "evidence": np.full(count, int(Evidence.PROVED)),
    }


def _records(block: Block, run: Run, calls: dict[str, Any]) -> IntColumn:
    """Return by group and step the call that records the event behind the group's copies; -1: none, as of no step."""
    sites, steps = block.log.call_sites, len(block.log.step_starts_ns)
    found = np.full((len(run.groups), steps + 1), NONE, dtype=np.int64)
    records = np.flatnonzero(np.isin(calls["site"], [at for at, site in enumerate(sites) if site.name == "record"]))
    for number, group in enumerate(run.groups):
        names = {tensor.name for tensor in group.tensors}
        copies = [at for at, site in enumerate(sites) if site.subject in names and _kind(site, run) == ApiKind.COPY]
        rows = np.flatnonzero(np.isin(calls["site"], copies))
        last = np.full(steps, NONE, dtype=np.int64)
        last[calls["step"][rows]] = rows  # in the order of time: the last copy of each step stays
        at = np.searchsorted(records, last, side="right")
        behind = np.append(records, NONE)[at]
        same_step = np.append(calls["step"], NONE)[behind] == np.arange(steps)
        found[number, :steps] = np.where((last != NONE) & same_step, behind, NONE)
    return found


def _kernels(block: Block, run: Run, names: Names, first_call: int) -> dict[str, Any]:
    kernels, sites = block.log.kernels, block.log.call_sites
    calls = _calls(block, run, names)
    forward = min(int(run.params["kernels"]), int(np.iinfo(np.int32).max))
    # A kernel's number says which launch it came from: the forward pass's first, then update, then prepare.
    launch = np.clip(kernels["kernel"].astype(np.int64) - forward + 1, 0, 2)
    api = np.full(len(kernels), NONE, dtype=np.int64)
    for number, launched in enumerate(("forward", "update", "prepare")):
        is_launch = np.isin(calls["site"], [i for i, site in enumerate(sites) if site.name == launched])
        rows = np.flatnonzero(is_launch)
        steps = len(block.log.step_starts_ns)
        of_step = np.full(steps + 1, NONE, dtype=np.int64)
        of_step[calls["step"][rows]] = rows + first_call
        mine = launch == number
        api[mine] = of_step[np.minimum(kernels["step"][mine], steps)]
    kernel_names = np.array([names.index(name) for name in ("forward kernel", "update kernel", "prepare kernel")])
    count = len(kernels)
    return {
        "kind": np.full(count, int(WorkKind.KERNEL)),
        "name": kernel_names[launch],
        "device": np.zeros(count),
        "stream": np.zeros(count),
        "start_ns": kernels["start_ns"],
        "end_ns": kernels["end_ns"],
        "api": api,
        "direction": np.full(count, int(CopyDirection.UNKNOWN)),
        "host_side": np.full(count, int(HostSide.UNKNOWN)),
        "size_bytes": np.full(count, NONE),
    }


def _ranges(block: Block, names: Names) -> dict[str, Any]:
    log = block.log
    steps = len(log.step_starts_ns)
    name = np.array([names.index(text) for text in log.range_names], dtype=np.int64)
    part = np.full(steps, names.index("step"))
    part[: block.warmup] = names.index("step (warm-up)")
    part[block.warmup + block.steps :] = names.index("step (overrun)")
    return {
        "kind": np.full(steps + len(log.ranges), int(RangeKind.MARKER)),
        "name": np.concatenate((part, name[log.ranges["range"]])),
        "domain": np.full(steps + len(log.ranges), names.index("fdprof")),
        "thread": np.zeros(steps + len(log.ranges)),
        "start_ns": np.concatenate((log.step_starts_ns, log.ranges["start_ns"])),
        "end_ns": np.concatenate((log.step_ends_ns, log.ranges["end_ns"])),
        "payload": np.concatenate((np.arange(steps), np.full(len(log.ranges), NONE))),
    }
