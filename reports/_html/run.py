"""The part of the HTML page that shows one run of fdprof's own loop."""

import numpy as np
from fdprof.reports._capture_text import TRANSFER_HEADINGS, TRANSFERS_TITLE
from fdprof.reports._html.bars import bars_of
from fdprof.reports._html.timeline import side_data
from fdprof.reports._html.view import Badge, Json, Part, Side, Table
from fdprof.reports._html.words import (
    INTERRUPTED,
    SIMULATED,
    cut_table,
    environment_facts,
    finding_views,
    links_by_number,
    longest_table,
    numbers_table,
)
from fdprof.reports._parts import parts_of_result
from fdprof.reports._run_text import fence_line, hazard_lines, tokens_line, warnings
from fdprof.reports._text import HEADINGS, loop_line

from fdprof import units
from fdprof.analysis.results import RunResult
from fdprof.model import Run

_NO_TRACER = "a run has no tracer: copies have no device interval, so the device's time in them counts as idle"
NO_STEPS = "no counted step ran, so there are no times to show"


def part_of_run(result: RunResult, part: str, most_spans: int) -> Part:
    """Return the part of a run."""
    run, facts = result.run, result.facts
    data = run_data(result, "", most_spans)
    return Part(
        id=part,
        title=f"{units.shown(run.scenario)} in mode {units.shown(run.mode)} on {units.shown(run.backend)}",
        badges=run_badges(result),
        sentences=_sentences(result),
        facts=run_subject(run),
        notes=(*(units.shown(limit) for limit in result.limits), *(() if facts else (NO_STEPS,))),
        bars=bars_of([("", parts_of_result(result))], (_NO_TRACER,)),
        numbers=run_numbers(result, part, 0) if facts else (),
        lines=_lines(result),
        longest=()
        if facts is None or len(facts.steps) < 2
        else (longest_table("longest steps, µs", result.worst, facts.steps, part, 0),),
        sides=(run_side(result, "", part, 0),),
        has_timeline=data is not None and data["timeline"] is not None,
        data={} if data is None else {"sides": [data]},
    )


def _sentences(result: RunResult) -> tuple[str, ...]:
    """Return what the run comes to, and before it what makes that worth little."""
    begun = [f"{warning[0].upper()}{warning[1:]}." for warning in warnings(result)]
    return (*begun, *(units.shown(sentence) for sentence in result.headline))


def run_data(result: RunResult, label: str, most_spans: int, left_out: int = 0) -> Json | None:
    """Return the data of a run's charts and timeline; `left_out` steps at each block's beginning are not analysed."""
    facts = result.facts
    if facts is None:
        return None
    blocks = facts.steps.blocks
    per_block = [len(facts.steps)] if blocks is None else np.unique(blocks, return_counts=True)[1].tolist()
    # As a capture, a run has all of its counted steps, those left out as warm-up by a comparison too.
    first = [left_out * (at + 1) + sum(per_block[:at]) for at in range(len(per_block))]
    return side_data(label, facts, result, most_spans, first)


def run_badges(result: RunResult) -> tuple[Badge, ...]:
    """Return what must not be overlooked of a run."""
    run = result.run
    return (
        *([SIMULATED] if run.is_simulated else []),
        *([] if result.is_right else [Badge("wrong values", "bad")]),
        *([INTERRUPTED] if run.interrupted else []),
    )


def run_subject(run: Run) -> tuple[tuple[str, str], ...]:
    """Return what was run, on what: term and text."""
    simulated = f"simulated: no GPU took part; the device's profile is {units.shown(run.environment.profile or '')}"
    finished = f"; interrupted: {units.counted(len(run.blocks), 'finished block')} shown" if run.interrupted else ""
    return (
        ("scenario", units.shown(run.scenario)),
        ("mode", units.shown(run.mode)),
        ("backend", units.shown(run.backend) + (f" ({simulated})" if run.is_simulated else "")),
        ("loop", units.shown(loop_line(run))),
        ("steps", f"{run.counted_steps:,} counted in {units.counted(len(run.blocks), 'block')}{finished}"),
        *([("fault", f"wrong on purpose: fault {units.shown(run.fault)}")] if run.fault is not None else []),
        ("run", f"{units.shown(run.id)}, {units.shown(run.created)}"),
        *environment_facts(run.environment),
    )


def run_numbers(result: RunResult, part: str, side: int) -> tuple[Table, ...]:
    """Return the statistics."""
    title = f"{units.shown(result.run.mode)}: times per step, µs"
    return (
        numbers_table(
            title, HEADINGS, result.summaries, links_by_number(result.facts, part, side), result.label_of_max
        ),
    )


def run_side(result: RunResult, label: str, part: str, side: int) -> Side:
    """Return the tables and findings of a run, by itself or as a side of a comparison."""
    transfers = _transfers(result)
    return Side(
        label=label,
        lines=(fence_line(result), tokens_line(result), *hazard_lines(result)),
        tables=() if transfers is None else (transfers,),
        findings=finding_views(result.findings, result.facts, part, side),
    )


def _lines(result: RunResult) -> tuple[str, ...]:
    found = []
    if result.efficiency is not None:
        found.append(f"efficiency {units.percent(result.efficiency)}")
    if result.residual_ns is not None:
        found.append(f"residual {result.residual_ns} ns")
    return tuple(found)


def _transfers(result: RunResult) -> Table | None:
    rows = [
        (
            f"{units.shown(transfer.name)}, {transfer.direction}",
            units.size(transfer.size_bytes),
            transfer.memory,
            units.us(transfer.issue_ns),
            units.us(transfer.copy_ns),
            units.us(transfer.wait_ns),
            str(transfer.lag),
        )
        for transfer in result.transfers
    ]
    head = ("transfer", "size", *TRANSFER_HEADINGS[1:])
    return cut_table(TRANSFERS_TITLE, head, rows, "more transfer", frozenset({2}))
