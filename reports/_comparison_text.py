"""The terminal report of a comparison."""

from fdprof.reports import _comparison_words as words
from fdprof.reports._text import header, interrupted, say
from fdprof.reports.protocol import ComparisonResult
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fdprof import units
from fdprof.analysis.results import RunResult
from fdprof.comparison import Comparison

_PARTS_SHOWN = 10


def show_comparison(console: Console, result: ComparisonResult) -> None:
    """Print what the comparison comes to, then the times it rests on, then how it was made."""
    comparison = result.comparison
    for sentence in words.sentences(result):
        say(console, units.shown(sentence))
    for mismatch in comparison.mismatches:
        say(console, units.shown(words.mismatch_line(mismatch)), indent=2)
    for gate in comparison.gates:
        say(console, units.shown(f"gate {gate.option}: {gate.outcome.value}; {gate.text}"))
    say(console, "")
    _subject(console, result)
    for note in comparison.notes:
        say(console, f"note: {units.shown(note)}")
    _times(console, result)
    _bridge(console, result)
    for line in words.method_lines(result):
        say(console, units.shown(line))
    for entry in (result.baseline, result.candidate):
        if isinstance(entry, RunResult) and entry.run.interrupted:
            interrupted(console, entry.run)
            break


def _subject(console: Console, result: ComparisonResult) -> None:
    """Print what was compared: the one loop of two runs of a call, or each side by itself."""
    comparison = result.comparison
    runs = [entry.run if isinstance(entry, RunResult) else None for entry in (result.baseline, result.candidate)]
    is_one_loop = runs[0] is not None and runs[1] is not None and runs[0].call == runs[1].call != ""
    if is_one_loop and runs[0] is not None:
        header(console, runs[0])
    sides = comparison.baseline, comparison.candidate
    for name, side, run in zip(("baseline", "candidate"), sides, runs, strict=True):
        tool = f", {side.fields['tracer']}" if side.is_capture else ""
        steps = f"{units.counted(len(side.steps_ns), 'step')} in {units.counted(len(side.windows_ns), 'block')}"
        say(console, units.shown(f"{name}: {side.label} ({side.source}{tool}), {steps}"))
        if run is not None and not is_one_loop:
            header(console, run)


def _times(console: Console, result: ComparisonResult) -> None:
    comparison = result.comparison
    has_times = comparison.judgement is not None
    tokens = words.token_rows(result)
    if not has_times and not tokens:
        return
    table = Table(
        title="times per step, µs" if has_times else "what the host read", title_justify="left", box=box.SIMPLE_HEAD
    )
    table.add_column("", justify="left")
    for label in result.labels:
        table.add_column(Text(units.shown(label)), justify="right", overflow="fold")
    if has_times:
        table.add_column("ratio", justify="right")
        table.add_column("95 % interval", justify="right")
        for row in words.step_rows(result):
            table.add_row(*row)
        table.add_section()
        for row in words.column_rows(comparison):
            table.add_row(*row)
        table.add_section()
        table.add_row(*words.efficiency_row(comparison))
    for row in tokens:
        table.add_row(*row)
    console.print(table)


def _bridge(console: Console, result: ComparisonResult) -> None:
    bridge = _nonzero(result.comparison)
    if not bridge:
        return
    labels = [units.shown(label) for label in result.labels]
    say(console, f"from {labels[0]} to {labels[1]}, µs a step (device busy and idle by cause; adds up to the ns):")
    shown, left = bridge[:_PARTS_SHOWN], bridge[_PARTS_SHOWN:]
    for name, ns in shown:
        say(console, f"  {units.signed_us(ns):>12}  {units.shown(name)}")
    if left:
        rest = sum(ns for _, ns in left)
        say(console, f"  {units.signed_us(rest):>12}  {units.counted(len(left), 'other')}")
    assert result.comparison.bridge is not None
    say(console, f"  {units.signed_us(result.comparison.bridge.step_ns):>12}  the step")


def _nonzero(comparison: Comparison) -> list[tuple[str, int]]:
    return [] if comparison.bridge is None else [(name, ns) for name, ns in comparison.bridge.parts.items() if ns]
