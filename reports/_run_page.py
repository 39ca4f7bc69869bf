"""The terminal's page of a run."""

from fdprof.reports._bars import show_step
from fdprof.reports._console import Screen
from fdprof.reports._findings_page import show_findings
from fdprof.reports._parts import parts_of_result
from fdprof.reports._run_text import first_steps, outcome_lines, warnings
from fdprof.reports._table import show_table, width_of
from fdprof.reports._text import AT_STEP, HEADINGS, P99_NOTE, STATISTICS, has_p99, run_subject, statistic_rows

from fdprof import units
from fdprof.analysis.results import RunResult

_FIRST_STEPS = 5


def show_run(screen: Screen, result: RunResult) -> None:
    """Put what to do first, where a step goes, the times, and what came of the transfers."""
    for warning in warnings(result):
        screen.say(warning, style="bold")
    for number, sentence in enumerate(result.headline):
        screen.say(units.shown(sentence), style="" if number else "bold")
    screen.blank()
    for line in run_subject(result.run):
        screen.say(line)
    for limit in result.limits:
        screen.say(f"note: {limit}")
    step_ns = result.summaries["window_ns"].mean
    show_step(screen, parts_of_result(result), step_ns or 0)
    _times(screen, result)
    screen.blank()
    for line in outcome_lines(result):
        screen.say(line)
    show_findings(screen, result)


def _times(screen: Screen, result: RunResult) -> None:
    """Put the statistics with the first steps beside them, or where there is no room, below."""
    count = result.summaries["window_ns"].count
    screen.title(f"{result.run.mode}: times per step, µs, of {count:,} counted")
    headings, rows = (*STATISTICS, AT_STEP), statistic_rows(HEADINGS, result.summaries, result.label_of_max)
    steps, firsts = first_steps(result, _FIRST_STEPS)
    beside = [(*row, *first[1:]) for row, first in zip(rows, firsts, strict=True)]
    if width_of(screen, (*headings, *steps), beside) <= screen.width:
        show_table(screen, (*headings, *steps), [beside])
    else:
        show_table(screen, headings, [rows])
        if steps:
            screen.title("of these the first")
            show_table(screen, steps, [firsts])
    if count and not has_p99(count):
        screen.blank()
        screen.say(f"note: {P99_NOTE}")
