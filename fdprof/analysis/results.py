"""What a run comes to: summaries, token counts, efficiency.  Derived, never stored."""

from dataclasses import dataclass

import numpy as np

from fdprof.analysis.facts import Bound, Facts, facts_of
from fdprof.analysis.fence import FenceResult, fence_of, group_wait_ns
from fdprof.analysis.findings import findings_of, in_order
from fdprof.analysis.findings.run import run_findings
from fdprof.analysis.hazards import find_hazards
from fdprof.analysis.headline import headline_of
from fdprof.analysis.longest import WorstStep, longest_steps
from fdprof.analysis.run_times import COUNTED, TIME_COLUMNS, RunTimes, run_times_of, steps_of
from fdprof.analysis.stats import NOTHING, summarize
from fdprof.finding import Finding, FindingCode
from fdprof.model import (
    BLOCKING_KINDS,
    CallKind,
    CallSite,
    Direction,
    HazardCode,
    IntColumn,
    Run,
    Summary,
    WrongValue,
)
from fdprof.run_capture import capture_of
from fdprof.units import us

ABOVE_LIMIT = (
    "an efficiency above 100 % is no loop that beats its limit: the counted steps are too few to leave out work that "
    "was queued before or done after them, or the scenario launches no forward pass; use more --warmup and --steps"
)


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
class HazardResult:
    """One kind of hazard over all blocks: how often, how often with a wrong value read in the step, where first."""

    code: HazardCode
    count: int
    proved: int
    first_step: int
    tensor: str | None


@dataclass(frozen=True, slots=True)
class RunResult:
    """Everything a report of one run shows."""

    run: Run
    times: RunTimes
    facts: Facts | None  # of the counted steps, by the ledger that captures have too; None without such steps
    findings: tuple[Finding, ...]
    headline: tuple[str, ...]  # three sentences; none without counted steps, or with wrong values: they are no steps
    summaries: dict[str, Summary]
    idle_by_cause_ns: dict[str, float] | None  # mean per counted step, the largest first
    residual_ns: int | None  # the largest of any step; not 0 is a bug
    worst: tuple[WorstStep, ...]  # the longest counted steps, the longest first
    efficiency: float | None  # limit / mean step; None when the tokens are wrong: steps that skip a wait are no steps
    values: int
    values_right: int
    reads: int
    stale_reads: int
    wrong_reads: int
    overrun_tokens: int
    first_wrong: WrongValue | None
    unread_groups: tuple[str, ...]  # those to the host that were not read at every step up to the last
    stop_seen: bool
    syncs_per_step: float
    transfers: tuple[TransferResult, ...]
    fence: FenceResult
    hazards: tuple[HazardResult, ...] | None  # None: not audited, so nothing looked
    clock_error_ns: int
    again: str | None = None  # the command that analyses it again, which takes --steps; None: it was not kept

    @property
    def limits(self) -> tuple[str, ...]:
        """What limits the numbers, in words."""
        error = f"device times are on the host clock to within ±{us(self.clock_error_ns)} µs"
        return (
            *self.run.caveats,
            *([error] if self.clock_error_ns else []),
            *([ABOVE_LIMIT] if self.efficiency is not None and self.efficiency > 1 else []),
        )

    def counted(self, name: str) -> IntColumn | None:
        """Return a column of the counted steps, ns: of the run's own times, or of the ledger."""
        if name in LEDGER_ONLY:
            return None if self.facts is None else getattr(self.facts.ledger, name)
        return self.times.counted(name)

    def label_of_max(self, name: str) -> str | None:
        """Return what the step of a column's largest value is called, None where there is none."""
        column = self.counted(name)
        return None if self.facts is None or column is None else self.facts.steps.label(int(np.argmax(column)))

    @property
    def is_right(self) -> bool:
        return all(block.tokens.is_right for block in self.run.blocks)


def result_of(run: Run) -> RunResult:
    """Return what a run with at least one block comes to."""
    times = run_times_of(run)
    counted_steps = times.step[times.part == COUNTED]
    summaries = {name: summarize(times.counted(name), counted_steps) for name in TIME_COLUMNS}
    facts = _facts(run, times) if len(counted_steps) else None
    fence = fence_of(run)
    is_right = all(block.tokens.is_right for block in run.blocks)
    findings = _findings(facts, fence, is_right)
    for name in LEDGER_ONLY:
        column = None if facts is None else getattr(facts.ledger, name)
        summaries[name] = NOTHING if column is None else summarize(column, counted_steps)
    checks = [block.tokens for block in run.blocks]
    mean = summaries["window_ns"].mean
    return RunResult(
        run=run,
        times=times,
        facts=facts,
        findings=findings,
        headline=_headline(facts, findings) if is_right else (),
        summaries=summaries,
        idle_by_cause_ns=None if facts is None else facts.ledger.mean_causes(),
        residual_ns=None if facts is None else facts.ledger.largest_residual_ns,
        worst=() if facts is None else longest_steps(facts.ledger),
        efficiency=run.limit_ns / mean if is_right and mean is not None else None,
        values=sum(check.values for check in checks),
        values_right=sum(check.right for check in checks),
        reads=sum(check.reads for check in checks),
        stale_reads=sum(check.stale_reads for check in checks),
        wrong_reads=sum(check.wrong_reads for check in checks),
        overrun_tokens=sum(check.overrun_tokens for check in checks),
        unread_groups=_unread_groups(run),
        first_wrong=next((check.first_wrong for check in checks if check.first_wrong), None),
        stop_seen=all(check.stop_seen for check in checks),
        syncs_per_step=_calls_per_step(run, BLOCKING_KINDS),
        transfers=tuple(_transfers(run)),
        fence=fence,
        hazards=_hazards(run) if run.audited else None,
        clock_error_ns=max(block.clock.error_ns for block in run.blocks),
    )


_OF_ORDER = frozenset({FindingCode.NO_FENCE, FindingCode.EVENT_RECORDED_AGAIN})
"""Findings about what guards a read, which are as good where the values are wrong: they may be why."""


def _findings(facts: Facts | None, fence: FenceResult, is_right: bool) -> tuple[Finding, ...]:
    """Return the findings; steps that read wrong values are no steps, so that nothing follows from their times."""
    if facts is None:
        return ()
    found = in_order([*findings_of(facts), *run_findings(fence, facts)])
    return found if is_right else tuple(finding for finding in found if finding.code in _OF_ORDER)


def _headline(facts: Facts | None, findings: tuple[Finding, ...]) -> tuple[str, ...]:
    """Return the sentences that a capture of these steps would have; none where they would be about the capture."""
    return () if facts is None or facts.bound is Bound.UNKNOWN else headline_of(facts, findings)


LEDGER_ONLY = ("harmful_wait_ns", "harmless_wait_ns")
"""Columns that the ledger has and the run's own times have not."""


def _facts(run: Run, times: RunTimes) -> Facts:
    """Return the facts of the counted steps."""
    capture = capture_of(run)
    steps = steps_of(run).where(times.part == COUNTED)
    return facts_of(capture, steps, 0)


def _counted_calls(run: Run) -> list[tuple[CallSite, int]]:
    """Return call site and duration in ns of the calls in counted steps."""
    rows: list[tuple[CallSite, int]] = []
    for block in run.blocks:
        calls = block.log.calls
        counted = (calls["step"] >= block.warmup) & (calls["step"] < block.warmup + block.steps)
        durations = (calls["end_ns"] - calls["start_ns"])[counted]
        sites = block.log.call_sites  # numbered anew in every block
        rows.extend(
            (sites[index], duration) for index, duration in zip(calls["call"][counted], durations.tolist(), strict=True)
        )
    return rows


def _calls_per_step(run: Run, kinds: frozenset[CallKind]) -> float:
    return sum(site.kind in kinds for site, _ in _counted_calls(run)) / max(run.counted_steps, 1)


def _transfers(run: Run) -> list[TransferResult]:
    calls = _counted_calls(run)
    steps = max(run.counted_steps, 1)
    results = []
    for number, group in enumerate(run.groups):
        wait_ns = group_wait_ns(run, number)
        is_to_host = group.direction is Direction.TO_HOST
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
                    direction=group.direction.value,
                    size_bytes=tensor.size_bytes,
                    memory=run.memory_of(group).value,
                    lag=0 if group.needed_in_step or not is_to_host else run.lag,
                    issue_ns=float(np.sum(issues)) / steps if issues else None,
                    copy_ns=None,
                    wait_ns=None if wait_ns is None else wait_ns / steps,
                )
            )
    return results


def _unread_groups(run: Run) -> tuple[str, ...]:
    unread = []
    for number, group in enumerate(run.groups):
        read = [np.unique(block.log.reads["value_step"][block.log.reads["group"] == number]) for block in run.blocks]
        expected = [block.warmup + block.steps for block in run.blocks]
        if group.direction is Direction.TO_HOST and any(
            (steps < last).sum() < last for steps, last in zip(read, expected, strict=True)
        ):
            unread.append(group.name)
    return tuple(unread)


def _hazards(run: Run) -> tuple[HazardResult, ...]:
    found = [hazard for block in run.blocks for hazard in find_hazards(block, run.groups)]
    results = []
    for code in HazardCode:
        of_code = [hazard for hazard in found if hazard.code is code]
        if of_code:
            first = of_code[0]
            proved = sum(hazard.is_proved for hazard in of_code)
            results.append(HazardResult(code, len(of_code), proved, first.step, first.tensor))
    return tuple(results)
