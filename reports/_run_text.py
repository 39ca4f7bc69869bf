"""A run in words and rows, which the terminal and the Markdown report lay out each in its way."""

from fdprof.reports._text import HEADINGS, Row, has_p99, interrupted

from fdprof import units
from fdprof.analysis.results import RunResult

_TRANSFERS_SHOWN = 10


def first_steps(result: RunResult, most: int) -> tuple[list[str], list[Row]]:
    """Return the numbers of the first counted steps, `most` at most, and their times in µs, one row a heading."""
    steps = (
        [] if result.facts is None else [result.facts.steps.label(at) for at in range(len(result.facts.steps))[:most]]
    )
    found = []
    for name, heading in HEADINGS.items():
        column = result.counted(name)
        cells = [None] * len(steps) if column is None else column[: len(steps)].tolist()
        found.append((heading, *map(units.us, cells)))
    return [f"step {step}" for step in steps], found


def outcome_lines(result: RunResult) -> list[str]:
    """Return what came of the transfers, waits, tokens and hazards, one line each."""
    efficiency = [] if result.efficiency is None else [f"efficiency {units.percent(result.efficiency)}"]
    return [
        *efficiency,
        *_transfers(result),
        fence_line(result),
        tokens_line(result),
        *hazard_lines(result),
        *interrupted(result.run),
    ]


def _transfers(result: RunResult) -> list[str]:
    lines = [
        f"transfer {transfer.name}: {units.size(transfer.size_bytes)} {transfer.direction}, {transfer.memory}, "
        f"lag {transfer.lag}; issue {units.us(transfer.issue_ns)} µs a step"
        for transfer in result.transfers[:_TRANSFERS_SHOWN]
    ]
    left = result.transfers[_TRANSFERS_SHOWN:]
    if left:
        issue_ns = sum(transfer.issue_ns or 0 for transfer in left)
        more = units.counted(len(left), "more transfer")
        lines.append(f"... and {more}; issue together {units.us(issue_ns)} µs a step")
    return lines


def fence_line(result: RunResult) -> str:
    """Return how often and how long the host waited, and how soon it knew the values."""
    fence = result.fence
    if fence.wait_ns is None:
        return "waits: none but in blocking copies" if result.syncs_per_step else "waits: none"
    text = (
        f"waits: {fence.per_step:.2f} a step, {units.us(fence.wait_ns)} µs a step, of it CPU time "
        f"{units.us(fence.cpu_ns)} µs ({units.percent(fence.cpu_share)})"
    )
    learn = fence.learn
    if learn.p50 is None:
        return f"{text}; none was entered before the end of the kernel that makes its values"
    worst = f"p99 {units.us(learn.p99)}" if has_p99(learn.count) else f"max {units.us(learn.max)}"
    return f"{text}; values known after their kernel's end: p50 {units.us(learn.p50)}, {worst} µs"


def hazard_lines(result: RunResult) -> list[str]:
    """Return the hazards that an audit found; nothing where nobody looked."""
    if result.hazards is None:
        return []
    if not result.hazards:
        return ["hazards: none"]
    return [
        f"hazard {hazard.code.value}: {hazard.code.meaning}; {hazard.count:,} times, each tensor counted, "
        f"{hazard.proved:,} of them in a step that read a wrong value; first at step {hazard.first_step}"
        + (f", {hazard.tensor}" if hazard.tensor else "")
        for hazard in result.hazards
    ]


def warnings(result: RunResult) -> list[str]:
    """Return what stands above all else: that values are wrong, or that only timing made them right."""
    if not result.is_right:
        return [f"wrong values: {tokens_line(result)}; times of steps that read wrong values say nothing"]
    if result.hazards:
        codes = ", ".join(hazard.code.value for hazard in result.hazards)
        return [f"hazards: {codes}; the values are right by timing, not by the order of the calls"]
    return []


def tokens_line(result: RunResult) -> str:
    """Return how many values were right, how many reads stale, how many tokens too many."""
    text = (
        f"values {result.values_right:,} of {result.values:,} right, "
        f"stale reads {result.stale_reads:,} of {result.reads:,}, overrun {result.overrun_tokens:,} tokens"
    )
    return text if result.stop_seen else text + ", the stop never reached the host"
