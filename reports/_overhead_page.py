"""The terminal's page of what profiling costs."""

from fdprof.reports._console import Screen
from fdprof.reports._overhead_text import (
    OVERHEAD_HEADINGS,
    overhead_missing,
    overhead_notes,
    overhead_rows,
    overhead_subject,
    overhead_title,
)
from fdprof.reports._table import show_table

from fdprof import units
from fdprof.analysis.inflation import OverheadResult


def show_overhead(screen: Screen, result: OverheadResult) -> None:
    """Put the loop, a row for each condition, and how to read them."""
    screen.say(units.shown(overhead_title(result)))
    screen.say(overhead_subject(result))
    screen.title("times per step, µs")
    show_table(screen, OVERHEAD_HEADINGS[1:], [overhead_rows(result)])
    screen.blank()
    for line in overhead_missing(result):
        screen.say(units.shown(line))
    for note in overhead_notes(result):
        screen.say(f"note: {note}")
