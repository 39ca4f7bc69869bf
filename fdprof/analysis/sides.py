"""Makes the side of a comparison of a run or a capture, with its warm-up left out."""

import dataclasses
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fdprof.analysis.capture_result import CaptureResult
from fdprof.analysis.facts import Facts
from fdprof.analysis.idle import CAUSE_NAMES, HOST_PREFIX
from fdprof.analysis.intervals import covered
from fdprof.analysis.results import RunResult, result_of
from fdprof.analysis.run_times import COUNTED, counted_windows
from fdprof.analysis.warmup import warm_up_of
from fdprof.capture import COPY_KINDS, NONE, ApiKind
from fdprof.comparison import NO_TRACER, Blocked, Field, Side, TokenStream
from fdprof.errors import InputError
from fdprof.finding import DOUBTS, FindingCode
from fdprof.model import IntColumn, Run

COMPUTE, COPY_ALONE = "busy:compute", "busy:copy alone"
"""The parts of a step that are no idle causes: device busy with kernels and the like, and with copies alone."""

_NOT_COMPARED = frozenset({"timeout"})
"""Parameters that change nothing that is measured."""

_CHANGE_NO_TOKEN = _NOT_COMPARED | {
    "device_us",
    "kernels",
    "launch",
    "schedule_us",
    "save_output_us",
    "device_times",
    "host_times",
    "wait",
    "steps",
    "warmup",
    "pinned_alloc",
}
"""Parameters by which the same tokens are made.  All others decide them, or may."""


def warm_up_of_blocks(windows_ns: Sequence[IntColumn]) -> int:
    """Return how many steps at the beginning of every block are its warm-up.

    Every block begins anew, so a warm-up is where the median over the blocks, step by step, changes its level; a host
    that is slow for a while is slow in some blocks only.
    """
    shortest = min((len(windows) for windows in windows_ns), default=0)
    if not shortest:
        return 0
    return warm_up_of(np.rint(np.median([windows[:shortest] for windows in windows_ns], axis=0)).astype(np.int64))


def settled(run: Run) -> tuple[Run, int]:
    """Return the run with the warm-up of its blocks extended to their change of level, and by how many steps."""
    more = warm_up_of_blocks([counted_windows(block) for block in run.blocks])
    later = (replace(block, warmup=block.warmup + more, steps=block.steps - more) for block in run.blocks)
    return replace(run, blocks=tuple(later)), more


def sides_of_runs(runs: Sequence[Run]) -> list[tuple[Side, RunResult]]:
    """Return the side of each run with the result it comes from, the warm-up of its blocks left out.

    Those of one call get as many blocks each: Ctrl-C may leave one of them a block more.
    """
    fewest = min(len(run.blocks) for run in runs)
    if len({run.call for run in runs}) == 1 and runs[0].call:
        runs = [replace(run, blocks=run.blocks[:fewest]) for run in runs]
    found = []
    for run in runs:
        later, left_out = settled(run)
        result = result_of(later)
        found.append((side_of_run(result, left_out), result))
    return found


def side_of_run(result: RunResult, left_out: int) -> Side:
    """Return the side of a run's result; InputError where no counted step ran, unless its tokens are wrong anyway."""
    run, times, facts = result.run, result.times, result.facts
    if facts is None and result.is_right:
        raise InputError(f"{run.id}: no counted step ran", "record it with more --steps")
    counted = times.part == COUNTED
    return Side(
        label=run.mode,
        source=run.backend,
        fields={
            "tracer": NO_TRACER,
            "scenario": run.scenario,
            "backend": run.backend,
            "fault": run.fault,
            "audit": run.audited,
            "device_work_ns": _device_work_ns(facts),
            **{name: _field(value) for name, value in run.params.items() if name not in _NOT_COMPARED},
            **dataclasses.asdict(run.environment),
        },
        call=run.call,
        positions=tuple(block.position for block in run.blocks),
        windows_ns=tuple(times.window_ns[counted & (times.block == block.index)] for block in run.blocks),
        left_out=left_out,
        parts_ns=None if facts is None else _parts(facts),
        blocked=Blocked(0, 0) if facts is None else _blocked(facts),
        means_ns={name: summary.mean for name, summary in result.summaries.items()},
        limit_ns=run.limit_ns,
        tokens=_tokens(run),
        is_right=result.is_right,
        doubts=(),
        gpu=tuple(block.gpu for block in run.blocks),
        notes=result.limits,
    )


def side_of_capture(result: CaptureResult, steps: int, left_out: int) -> Side:
    """Return the side of a capture's result, `left_out` of whose `steps` are its warm-up."""
    facts = result.facts
    capture = facts.capture
    device = None if facts.device is None else capture.devices[facts.device].name
    return Side(
        label=result.path,
        source=capture.source,
        fields={
            "tracer": capture.tool,
            "gpu": device,
            "steps": steps,
            "device_work_ns": _device_work_ns(facts),
        },
        call="",
        positions=(0,),
        windows_ns=(facts.ledger.window_ns,),
        left_out=left_out,
        parts_ns=_parts(facts),
        blocked=_blocked(facts),
        means_ns={name: summary.mean for name, summary in result.summaries.items()},
        limit_ns=facts.limit_ns,
        tokens=None,
        is_right=None,
        doubts=_doubts(result),
        notes=result.limits,
        inflation=capture.inflation,
    )


def _doubts(result: CaptureResult) -> tuple[str, ...]:
    """Return the codes of findings that make the numbers doubtful.

    The profiler's inflation is none where it was measured: then it is held against the effect.
    """
    is_measured = result.facts.capture.inflation is not None
    doubts = DOUBTS if not is_measured else [code for code in DOUBTS if code is not FindingCode.PROFILER_INFLATION]
    return tuple(dict.fromkeys(finding.code.value for finding in result.findings if finding.code in doubts))


def _field(value: Any) -> Field:
    """Return a parameter as a field; what is no single value, as a user's scenario may have, as its text."""
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _device_work_ns(facts: Facts | None) -> int | None:
    """Return the device's own work a step: all but copies alone."""
    compute = None if facts is None else facts.ledger.compute_ns
    return None if compute is None else round(float(compute.mean()))


def _parts(facts: Facts) -> dict[str, int] | None:
    """Return where all windows went, ns: the sum of the parts is the sum of the windows."""
    ledger = facts.ledger
    if ledger.idle is None or ledger.compute_ns is None:
        return None
    idle = ledger.idle.totals()
    causes = [name for name in CAUSE_NAMES.values() if name in idle]
    ranges = sorted(name for name in idle if name.startswith(HOST_PREFIX))
    return {
        COMPUTE: int(ledger.compute_ns.sum()),
        COPY_ALONE: 0 if ledger.copy_alone_ns is None else int(ledger.copy_alone_ns.sum()),
        **{name: idle[name] for name in (*causes, *ranges)},
    }


def _blocked(facts: Facts) -> Blocked:
    """Return the host-blocked time in copies and in fences.

    A stream or device synchronisation right behind a copy belongs to it, as in `.cpu()`; a wait for an event is a
    fence wherever it stands.
    """
    calls, api = facts.calls, facts.capture.api
    rows = calls.waits_of_thread(facts.steps.thread)
    kind = api["kind"][rows]
    ends_copy = (calls.copy_before[rows] != NONE) & (kind != ApiKind.EVENT_WAIT)
    is_copy = np.isin(kind, [int(copy) for copy in COPY_KINDS]) | ends_copy

    def spent(chosen: IntColumn) -> int:
        inside = covered(calls.start_ns[chosen], calls.end_ns[chosen], facts.steps.starts_ns, facts.steps.ends_ns)
        return int(inside.sum())

    every, in_copies = spent(rows), spent(rows[is_copy])
    return Blocked(in_copies, every - in_copies)


def _tokens(run: Run) -> TokenStream:
    """Return the digests of a run's reads, each once."""
    reads = [block.log.reads for block in run.blocks]
    columns = np.stack(
        [np.concatenate([table[name] for table in reads], dtype=np.int64) for name in ("group", "value_step", "digest")]
    )
    group, value_step, digest = np.unique(columns[:, columns[2] >= 0], axis=1)
    decided_by = {name: _field(value) for name, value in run.params.items() if name not in _CHANGE_NO_TOKEN}
    return TokenStream(
        decided_by={"scenario": run.scenario, **decided_by},
        groups=tuple(entry.name for entry in run.groups),
        group=group,
        value_step=value_step,
        digest=digest,
        last_step=min(block.warmup + block.steps for block in run.blocks) - 1,
    )
