"""The terminal's page of a comparison."""

from fdprof.reports import _comparison_words as words
from fdprof.reports._bars import show_sides
from fdprof.reports._console import Screen
from fdprof.reports._parts import parts_of_side
from fdprof.reports._table import show_table
from fdprof.reports._text import interrupted, run_subject
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
    _subject(screen, result)
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


def _subject(screen: Screen, result: ComparisonResult) -> None:
    """Put what was compared: the one loop of two runs of a call, or each side by itself."""
    comparison = result.comparison
    runs = [entry.run if isinstance(entry, RunResult) else None for entry in (result.baseline, result.candidate)]
    is_one_loop = runs[0] is not None and runs[1] is not None and runs[0].call == runs[1].call != ""
    if is_one_loop and runs[0] is not None:
        for line in run_subject(runs[0]):
            screen.say(line)
    sides = comparison.baseline, comparison.candidate
    for name, side, run in zip(("baseline", "candidate"), sides, runs, strict=True):
        tool = f", {side.fields['tracer']}" if side.is_capture else ""
        steps = f"{units.counted(len(side.steps_ns), 'step')} in {units.counted(len(side.windows_ns), 'block')}"
        screen.say(f"{name}: {units.shown(side.label)} ({units.shown(side.source + tool)}), {steps}")
        if run is not None and not is_one_loop:
            for line in run_subject(run):
                screen.say(line)


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
