"""The terminal's page of a capture."""

from collections.abc import Sequence

from fdprof.reports._bars import show_step
from fdprof.reports._capture_text import (
    ROWS_SHOWN,
    SYNC_HEADINGS,
    SYNCS_TITLE,
    TRANSFER_HEADINGS,
    TRANSFERS_TITLE,
    blocked_line,
    capture_subject,
    loop_lines,
    other_threads_line,
    sync_rows,
    transfer_rows,
    worst_lines,
)
from fdprof.reports._console import Screen
from fdprof.reports._findings_page import show_findings
from fdprof.reports._parts import parts_of_result
from fdprof.reports._table import show_table
from fdprof.reports._text import AT_STEP, LEDGER_HEADINGS, P99_NOTE, STATISTICS, Row, has_p99, statistic_rows

from fdprof import units
from fdprof.analysis.capture_result import CaptureResult


def show_capture(screen: Screen, result: CaptureResult) -> None:
    """Put what to do first, where a step goes, the times, the transfers, the waits, and the findings."""
    for number, sentence in enumerate(result.headline):
        screen.say(units.shown(sentence), style="" if number else "bold")
    screen.blank()
    for line in capture_subject(result):
        screen.say(line)
    for limit in result.limits:
        screen.say(f"note: {units.shown(limit)}")
    show_step(screen, parts_of_result(result), result.summaries["window_ns"].mean or 0)
    _times(screen, result)
    screen.blank()
    for line in loop_lines(result):
        screen.say(line)
    _rows(screen, TRANSFERS_TITLE, TRANSFER_HEADINGS, transfer_rows(result), "more kind of transfer")
    screen.blank()
    screen.say(blocked_line(result))
    _rows(screen, SYNCS_TITLE, SYNC_HEADINGS, sync_rows(result), "more call site")
    screen.blank()
    for line in other_threads_line(result):
        screen.say(line)
    worst = worst_lines(result)
    if worst:
        screen.say("longest steps:")
    for line in worst:
        screen.say(line, indent=2, hang=2)
    show_findings(screen, result)


def _times(screen: Screen, result: CaptureResult) -> None:
    count = len(result.facts.steps)
    screen.title("times per step, µs")
    rows = statistic_rows(LEDGER_HEADINGS, result.summaries)
    if count == 1:
        show_table(screen, ("the one step",), [[row[:2] for row in rows]])
        return
    show_table(screen, (*STATISTICS, AT_STEP), [rows])
    if count and not has_p99(count):
        screen.blank()
        screen.say(f"note: {P99_NOTE}")


def _rows(screen: Screen, title: str, headings: Sequence[str], rows: Sequence[Row], noun: str) -> None:
    """Put the first rows of a table, and how many are left out."""
    if not rows:
        return
    screen.title(title)
    show_table(screen, headings, [rows[:ROWS_SHOWN]])
    if len(rows) > ROWS_SHOWN:
        screen.say(f"... and {units.counted(len(rows) - ROWS_SHOWN, noun)}", indent=2)
