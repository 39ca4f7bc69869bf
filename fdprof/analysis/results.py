"""What a run and a comparison come to: summaries, token counts, efficiency.  Derived, never stored."""

from dataclasses import dataclass

import numpy as np

from fdprof.analysis.ledger import COUNTED, TIME_COLUMNS, Ledger, ledger_of
from fdprof.analysis.stats import summarize
from fdprof.errors import NotComparable
from fdprof.model import BLOCKING_KINDS, CallKind, CallSite, Comparison, Run, Summary, WrongValue


@dataclass(frozen=True, slots=True)
class TransferResult:
    """One tensor's transfer, per step.  None: not observed."""

    name: str
    group: str
    direction: str
    size_bytes: int
    memory: str
    lag: int
    issue_ns: float | None
    copy_ns: float | None
    wait_ns: float | None


@dataclass(frozen=True, slots=True)
class RunResult:
    """Everything a report of one run shows."""

    run: Run
    ledger: Ledger
    summaries: dict[str, Summary]
    efficiency: float | None  # limit / mean step; None when the tokens are wrong: steps that skip a wait are no steps
    values: int
    values_right: int
    reads: int
    stale_reads: int
    wrong_reads: int
    overrun_tokens: int
    first_wrong: WrongValue | None
    stop_seen: bool
    syncs_per_step: float
    transfers: tuple[TransferResult, ...]
    clock_error_ns: int

    @property
    def is_right(self) -> bool:
        return all(block.tokens.is_right for block in self.run.blocks)


def result_of(run: Run) -> RunResult:
    """Return what a run with at least one block comes to."""
    ledger = ledger_of(run)
    counted_steps = ledger.step[ledger.part == COUNTED]
    summaries = {name: summarize(ledger.counted(name), counted_steps) for name in TIME_COLUMNS}
    checks = [block.tokens for block in run.blocks]
    mean = summaries["window_ns"].mean
    is_right = all(check.is_right for check in checks)
    return RunResult(
        run=run,
        ledger=ledger,
        summaries=summaries,
        efficiency=run.limit_ns / mean if is_right and mean is not None else None,
        values=sum(check.values for check in checks),
        values_right=sum(check.right for check in checks),
        reads=sum(check.reads for check in checks),
        stale_reads=sum(check.stale_reads for check in checks),
        wrong_reads=sum(check.wrong_reads for check in checks),
        overrun_tokens=sum(check.overrun_tokens for check in checks),
        first_wrong=next((check.first_wrong for check in checks if check.first_wrong), None),
        stop_seen=all(check.stop_seen for check in checks),
        syncs_per_step=_calls_per_step(run, BLOCKING_KINDS),
        transfers=tuple(_transfers(run)),
        clock_error_ns=max(block.clock.error_ns for block in run.blocks),
    )


def compare(baseline: RunResult, candidate: RunResult) -> Comparison:
    """Return the comparison of two runs; NotComparable when they differ in more than their mode."""
    mine, other = baseline.run, candidate.run
    mismatches = tuple(
        f"{name}: {value!r} against {against!r}"
        for name, value, against in (
            ("scenario", mine.scenario, other.scenario),
            ("backend", mine.backend, other.backend),
            ("params", dict(mine.params), dict(other.params)),
            ("environment", mine.environment, other.environment),
        )
        if value != against
    )
    if mismatches:
        raise NotComparable(
            f"{mine.id} and {other.id} differ in {'; '.join(mismatches)}",
            "compare runs of one call: fdprof compare MODE MODE",
        )
    base, cand = baseline.summaries["window_ns"], candidate.summaries["window_ns"]
    return Comparison(
        baseline=mine,
        candidate=other,
        ratio=_ratio(cand.mean, base.mean),
        ratio_p50=_ratio(cand.p50, base.p50),
        ratio_p90=_ratio(cand.p90, base.p90),
        ratio_p99=_ratio(cand.p99, base.p99),
        tokens_equal=baseline.is_right and candidate.is_right,
        mismatches=mismatches,
    )


def _ratio(candidate: float | None, baseline: float | None) -> float:
    if candidate is None or baseline is None:
        raise NotComparable("a loop stopped before its first counted step", "its tokens are wrong: see `fdprof run`")
    return candidate / baseline


def _counted_calls(run: Run) -> list[tuple[CallSite, int]]:
    """Return call site and duration in ns of the calls in counted steps."""
    rows: list[tuple[CallSite, int]] = []
    for block in run.blocks:
        calls = block.capture.calls
        counted = (calls["step"] >= block.warmup) & (calls["step"] < block.warmup + block.steps)
        durations = (calls["end_ns"] - calls["start_ns"])[counted]
        sites = block.capture.call_sites  # numbered anew in every block
        rows.extend(
            (sites[index], duration) for index, duration in zip(calls["call"][counted], durations.tolist(), strict=True)
        )
    return rows


def _counted_steps(run: Run) -> int:
    """Return the counted steps that ran: a loop that reads a wrong flag stops early."""
    return sum(min(block.steps, max(len(block.capture.step_starts_ns) - block.warmup, 0)) for block in run.blocks)


def _calls_per_step(run: Run, kinds: frozenset[CallKind]) -> float:
    return sum(site.kind in kinds for site, _ in _counted_calls(run)) / max(_counted_steps(run), 1)


def _transfers(run: Run) -> list[TransferResult]:
    calls = _counted_calls(run)
    steps = max(_counted_steps(run), 1)
    waits = [duration for site, duration in calls if site.kind is CallKind.WAIT]
    wait_ns = float(np.sum(waits)) / steps if waits else None
    results = []
    for group in run.groups:
        for tensor in group.tensors:
            issues = [
                duration
                for site, duration in calls
                if site.subject == tensor.name and site.kind in (CallKind.COPY, CallKind.BLOCKING_COPY)
            ]
            results.append(
                TransferResult(
                    name=tensor.name,
                    group=group.name,
                    direction="device to host",
                    size_bytes=tensor.size_bytes,
                    memory=run.memory.value,
                    lag=run.lag,
                    issue_ns=float(np.sum(issues)) / steps if issues else None,
                    copy_ns=None,
                    wait_ns=wait_ns,
                )
            )
    return results
