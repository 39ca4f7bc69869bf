"""The times of each step, from what a block recorded.

The window of step k runs from its start to the start of step k+1 on the step's thread; the last ends with its own
range.  Only kernels are known on the device here: copies have no device interval without a tracer.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fdprof.analysis.intervals import Ns, covered
from fdprof.analysis.steps import Steps
from fdprof.capture import Evidence
from fdprof.model import BLOCKING_KINDS, HOST_RANGE, Block, BlockLog, CallKind, CallSite, Run, Table

COUNTED, WARMUP, OVERRUN = 0, 1, 2


@dataclass(frozen=True, slots=True)
class RunTimes:
    """One row a step, ns.  A column is None where this run has no such call."""

    block: npt.NDArray[np.int32]
    step: npt.NDArray[np.int32]
    part: npt.NDArray[np.int8]  # COUNTED, WARMUP or OVERRUN
    window_ns: Ns
    launch_ns: Ns  # host inside launch calls; one that waits for room in CUDA's launch queue cannot be told apart
    issue_ns: Ns | None  # host inside the calls that start transfers; a blocking copy waits in there
    host_work_ns: Ns
    fence_wait_ns: Ns | None  # host inside event and stream waits
    other_host_ns: Ns  # the rest of the window: reads, writes, allocations, event calls, the Python between the calls
    host_blocked_ns: Ns | None  # fence waits and blocking copies; None: no such call, and launches may wait unseen
    device_busy_ns: Ns  # union of kernels
    device_idle_ns: Ns  # window - device busy
    reads_stale: Ns  # reads in this step with a stale value

    def counted(self, name: str) -> Ns | None:
        """Return a column's counted steps."""
        column = getattr(self, name)
        return None if column is None else column[self.part == COUNTED]


_ISSUE_KINDS = frozenset({CallKind.COPY, CallKind.BLOCKING_COPY})

TIME_COLUMNS = (
    "window_ns",
    "launch_ns",
    "issue_ns",
    "host_work_ns",
    "fence_wait_ns",
    "other_host_ns",
    "host_blocked_ns",
    "device_busy_ns",
    "device_idle_ns",
)


def run_times_of(run: Run) -> RunTimes:
    """Return the times of all blocks of a run, in order."""
    parts = [_block_times(block) for block in run.blocks]
    used = {site.kind for block in run.blocks for site in _used_sites(block.log)}
    seen = {
        "issue_ns": bool(used & _ISSUE_KINDS),
        "fence_wait_ns": CallKind.WAIT in used,
        "host_blocked_ns": bool(used & BLOCKING_KINDS),
    }
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts]) if seen.get(name, True) else None
        for name in RunTimes.__dataclass_fields__
    }
    return RunTimes(**columns)


def windows_of(log: BlockLog) -> Ns:
    """Return the window of each step of a block."""
    return np.concatenate((log.step_starts_ns[1:], log.step_ends_ns[-1:])) - log.step_starts_ns


def counted_windows(block: Block) -> Ns:
    """Return the windows of a block's counted steps."""
    return windows_of(block.log)[block.warmup : block.warmup + block.steps]


def steps_of(run: Run) -> Steps:
    """Return the windows of all steps of a run, block after block: the rows of its times."""
    logs = [block.log for block in run.blocks]
    return Steps(
        thread=0,
        starts_ns=np.concatenate([log.step_starts_ns for log in logs]),
        ends_ns=np.concatenate([log.step_starts_ns + windows_of(log) for log in logs]),
        numbers=np.concatenate([np.arange(len(log.step_starts_ns), dtype=np.int64) for log in logs]),
        evidence=Evidence.PROVED,
        found_by="the steps that fdprof recorded",
        blocks=np.repeat([block.index for block in run.blocks], [len(log.step_starts_ns) for log in logs])
        if len(run.blocks) > 1
        else None,
    )


def _used_sites(log: BlockLog) -> list[CallSite]:
    return [log.call_sites[index] for index in np.unique(log.calls["call"])]


def _block_times(block: Block) -> RunTimes:
    log = block.log
    starts, window = log.step_starts_ns, windows_of(log)
    steps, ends = len(starts), starts + window
    busy = covered(log.kernels["start_ns"], log.kernels["end_ns"], starts, ends)
    index = np.arange(steps)
    part = np.where(index < block.warmup, WARMUP, np.where(index < block.warmup + block.steps, COUNTED, OVERRUN))
    stale_rows = log.reads["stale"] > 0
    return RunTimes(
        block=np.full(steps, block.index, dtype=np.int32),
        step=index.astype(np.int32),
        part=part.astype(np.int8),
        window_ns=window,
        launch_ns=_time_in(log, {CallKind.LAUNCH}, steps),
        issue_ns=_time_in(log, _ISSUE_KINDS, steps),
        host_work_ns=_host_work(log, steps),
        fence_wait_ns=_time_in(log, {CallKind.WAIT}, steps),
        other_host_ns=window - _covered_by_columns(log, starts, ends),
        host_blocked_ns=_time_in(log, BLOCKING_KINDS, steps),
        device_busy_ns=busy,
        device_idle_ns=window - busy,
        reads_stale=np.bincount(log.reads["step"][stale_rows], minlength=steps).astype(np.int64),
    )


def _covered_by_columns(log: BlockLog, starts: Ns, ends: Ns) -> Ns:
    """Return the host time that the other columns know, each ns once: a range of host work may hold a call."""
    kinds = {CallKind.LAUNCH, CallKind.WAIT} | _ISSUE_KINDS
    calls = np.array([site.kind in kinds for site in log.call_sites], dtype=bool)[log.calls["call"]]
    ranges = _is_host(log)[log.ranges["range"]]
    return covered(
        np.concatenate((log.calls["start_ns"][calls], log.ranges["start_ns"][ranges])),
        np.concatenate((log.calls["end_ns"][calls], log.ranges["end_ns"][ranges])),
        starts,
        ends,
    )


def _is_host(log: BlockLog) -> npt.NDArray[np.bool_]:
    """Return which ranges are the scenario's own host work."""
    return np.array([name.split(":")[0] == HOST_RANGE for name in log.range_names], dtype=bool)


def _host_work(log: BlockLog, steps: int) -> Ns:
    """Return the host time in `host` ranges by step."""
    return _time_by_step(log.ranges, _is_host(log)[log.ranges["range"]], steps)


def _time_in(log: BlockLog, kinds: frozenset[CallKind] | set[CallKind], steps: int) -> Ns:
    """Return the host time in calls of these kinds by step.  The calls follow one another on one thread."""
    is_kind = np.array([site.kind in kinds for site in log.call_sites], dtype=bool)
    return _time_by_step(log.calls, is_kind[log.calls["call"]], steps)


def _time_by_step(table: Table, chosen: npt.NDArray[np.bool_], steps: int) -> Ns:
    total = np.zeros(steps, dtype=np.int64)
    np.add.at(total, table["step"][chosen], (table["end_ns"] - table["start_ns"])[chosen])
    return total
