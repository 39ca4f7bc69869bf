"""The part of the HTML page that shows the analysis of one capture."""

from fdprof.reports._capture_text import (
    SYNC_HEADINGS,
    SYNCS_TITLE,
    TRANSFER_HEADINGS,
    TRANSFERS_TITLE,
    blocked_line,
    loop_lines,
    other_threads_line,
    sync_rows,
    transfer_rows,
)
from fdprof.reports._html.bars import bars_of
from fdprof.reports._html.timeline import side_data
from fdprof.reports._html.view import Part, Side
from fdprof.reports._html.words import cut_table, finding_views, links_by_number, longest_table, numbers_table
from fdprof.reports._overhead_text import inflation_text
from fdprof.reports._parts import parts_of_result
from fdprof.reports._text import LEDGER_HEADINGS

from fdprof import units
from fdprof.analysis.capture_result import CaptureResult

_TIMES = "times per step, µs"
_AWAITED = "waited for", "certainty"
NO_DEVICE = "no device work is known, so where the step goes on the device is not known either"


def part_of_capture(result: CaptureResult, part: str, most_spans: int) -> Part:
    """Return the part of a capture's analysis."""
    facts = result.facts
    bars = bars_of([("", parts_of_result(result))])
    data = side_data("", facts, result, most_spans, [result.first])
    longest = longest_table("longest steps, µs", result.worst, facts.steps, part, 0)
    return Part(
        id=part,
        title=units.shown(result.path),
        sentences=tuple(units.shown(sentence) for sentence in result.headline),
        facts=subject(result),
        notes=(*(units.shown(limit) for limit in result.limits), *(() if bars else (NO_DEVICE,))),
        bars=bars,
        numbers=(numbers_table(_TIMES, LEDGER_HEADINGS, result.summaries, links_by_number(facts, part, 0)),),
        lines=tuple(loop_lines(result)),
        longest=(longest,) if len(facts.steps) > 1 else (),
        sides=(capture_side(result, "", part, 0),),
        has_timeline=data["timeline"] is not None,
        data={"sides": [data]},
    )


def capture_side(result: CaptureResult, label: str, part: str, side: int) -> Side:
    """Return the tables and findings of a capture, by itself or as a side of a comparison."""
    texts = frozenset({len(SYNC_HEADINGS) + 1, len(SYNC_HEADINGS) + 2})
    syncs = [(*row, *awaited) for row, awaited in zip(sync_rows(result), _awaited(result), strict=True)]
    tables = (
        cut_table(
            TRANSFERS_TITLE,
            ("transfer", *TRANSFER_HEADINGS),
            transfer_rows(result),
            "more kind of transfer",
            frozenset({2}),
        ),
        cut_table(SYNCS_TITLE, ("sync call", *SYNC_HEADINGS, *_AWAITED), syncs, "more call site", texts),
    )
    return Side(
        label=label,
        lines=(blocked_line(result), *other_threads_line(result)),
        tables=tuple(table for table in tables if table is not None),
        findings=finding_views(result.findings, result.facts, part, side),
    )


def subject(result: CaptureResult) -> tuple[tuple[str, str], ...]:
    """Return what was analysed: term and text."""
    facts = result.facts
    capture, steps = facts.capture, facts.steps
    thread = capture.threads[steps.thread]
    device = None if facts.device is None else capture.devices[facts.device]
    left_out = f"; {steps.left_out:,} of warm-up, overrun or prefill left out" if steps.left_out else ""
    gpu = "no device work"
    if device is not None:
        gpu = f"device {device.device}" + (f", {units.shown(device.name)}" if device.name else "")
    found = [
        ("capture", units.shown(result.path)),
        ("recorded by", f"{units.shown(capture.tool)}, {capture.rows:,} rows"),
        ("GPU", gpu),
        ("steps", f"{units.counted(len(steps), 'step')} found by {units.shown(steps.found_by)}{left_out}"),
        ("thread", f"process {thread.process}, thread {thread.thread}"),
    ]
    if capture.inflation is not None:
        found.append(("tracer's cost", units.shown(inflation_text(capture.inflation).removeprefix("inflation: "))))
    return tuple(found)


def _awaited(result: CaptureResult) -> list[tuple[str, str]]:
    """Return of each call site the work that its waits ended on most often, and how sure that is."""
    return [
        (units.shown(site.waited_for or units.NOT_OBSERVED), site.evidence.name.lower())
        for site in result.facts.stalls.sites
    ]
