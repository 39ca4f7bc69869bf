"""The terminal's page of a comparison."""

from fdprof.reports import _comparison_words as words
from fdprof.reports._bars import show_sides
from fdprof.reports._console import Screen
from fdprof.reports._parts import parts_of_side
from fdprof.reports._table import show_table
from fdprof.reports._text import interrupted
from fdprof.reports.protocol import ComparisonResult

from fdprof import units
from fdprof.analysis.results import RunResult


def show_comparison(screen: Screen, result: ComparisonResult) -> None:
    """Put what the comparison comes to, then the times it rests on, then how it was made."""
    comparison = result.comparison
    for number, sentence in enumerate(words.sentences(result)):
        screen.say(sentence, style="" if number else "bold")
    for mismatch in comparison.mismatches:
        screen.say(words.mismatch_line(mismatch), indent=2)
    for gate in comparison.gates:
        screen.say(f"gate {gate.option}: {gate.outcome.value}; {gate.text}")
    screen.blank()
    for line in words.subject_lines(result):
        screen.say(line)
    for note in comparison.notes:
        screen.say(f"note: {units.shown(note)}")
    has_times = comparison.judgement is not None
    if has_times:
        sides = [parts_of_side(side) for side in (comparison.baseline, comparison.candidate)]
        show_sides(screen, words.column_labels(result), sides)
    _times(screen, result, has_times)
    _bridge(screen, result)
    screen.blank()
    for line in (*words.p99_note(result), *words.method_lines(result)):
        screen.say(line)
    for entry in (result.baseline, result.candidate):
        if isinstance(entry, RunResult) and entry.run.interrupted:
            for line in interrupted(entry.run):
                screen.say(line)
            break


def _times(screen: Screen, result: ComparisonResult, has_times: bool) -> None:
    tokens = words.token_rows(result)
    labels = words.column_labels(result)
    if has_times:
        sections = [words.step_rows(result), words.column_rows(result.comparison)]
        sections.append([words.efficiency_row(result.comparison), *tokens])
        screen.title("times per step, µs")
        show_table(screen, (*labels, "ratio", "95 % interval"), sections)
    elif tokens:
        screen.title("what the host read")
        show_table(screen, labels, [tokens])


def _bridge(screen: Screen, result: ComparisonResult) -> None:
    rows = words.bridge_rows(result)
    if not rows:
        return
    screen.title(words.bridge_title(result))
    show_table(screen, (*words.column_labels(result), "change"), [rows[:-1], rows[-1:]])
