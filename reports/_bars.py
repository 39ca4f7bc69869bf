"""Draws where a step goes: one bar of the whole step, and one line for each part of it."""

from collections.abc import Sequence

from fdprof.reports._console import Screen, wrapped
from fdprof.reports._palette import PALETTE
from fdprof.reports._parts import Part, by_meaning
from rich.cells import cell_len

from fdprof import units
from fdprof.meanings import Meaning

_INDENT = 2
_MIN_BAR, _MAX_BAR = 6, 40  # of a part's own bar
_MIN_NAME = 16
_SHOWN = 12

Span = tuple[str, str]
"""A text and its style."""


def show_step(screen: Screen, parts: Sequence[Part], step_ns: float) -> None:
    """Put the bar of a mean step, and a line for each part: its µs, its share of the step, its own bar, its name."""
    if not parts or step_ns <= 0:
        return
    screen.title(f"where a step goes, µs: the mean step of {units.us(step_ns)}")
    screen.put((" " * _INDENT, ""), *stacked(screen, parts, step_ns, screen.width - 2 * _INDENT))
    screen.blank()
    shown, left = parts[:_SHOWN], parts[_SHOWN:]
    times = [units.us(part.ns) for part in shown]
    rest_ns = sum(part.ns for part in left)
    width = max(len(time) for time in (*times, units.us(rest_ns)))
    longest = max(part.ns for part in shown)
    # Half of what the numbers leave, so that the name keeps the other half.
    room = (screen.width - _INDENT - width - len("  100.0 %  ")) // 2
    bar = min(room, _MAX_BAR) if room >= _MIN_BAR else 1
    for part, time in zip(shown, times, strict=True):
        length = max(round(part.ns / longest * bar), 1)
        _line(
            screen, f"{time:>{width}}  {_share(part.ns, step_ns)}", mark(screen, part.meaning, length), bar, part.name
        )
    if left:
        rest = f"{units.us(rest_ns):>{width}}  {_share(rest_ns, step_ns)}"
        _line(screen, rest, ("", ""), bar, units.counted(len(left), "other"))


def show_sides(screen: Screen, labels: Sequence[str], sides: Sequence[Sequence[Part]]) -> None:
    """Put one bar for each side, all on the scale of the longest step, and what the signs in them mean."""
    steps_ns = [sum(part.ns for part in parts) for parts in sides]
    if not all(sides):
        return
    screen.title("where a step goes, µs: the mean step of each side on one scale")
    names = [screen.clean(units.shown(label)) for label in labels]
    times = [units.us(ns) for ns in steps_ns]
    number = max(len(time) for time in times)
    name = max(cell_len(text) for text in names)
    above = name > screen.width // 4
    room = screen.width - 2 * _INDENT - number - 2 - (0 if above else name + 2)
    for text, time, parts in zip(names, times, sides, strict=True):
        if above:
            screen.say(text, indent=_INDENT)
        begin = "" if above else text + " " * (name - cell_len(text) + 2)
        spans = stacked(screen, parts, max(steps_ns), room)
        fill = " " * (room - sum(len(drawn) for drawn, _ in spans))
        screen.put((" " * _INDENT + begin, ""), *spans, (f"{fill}  {time:>{number}}", ""))
    present = [meaning for meaning in Meaning if any(part.meaning is meaning for parts in sides for part in parts)]
    _legend(screen, present)


def stacked(screen: Screen, parts: Sequence[Part], scale_ns: float, width: int) -> list[Span]:
    """Return a bar of all parts, `width` cells for `scale_ns`; its length is right to a cell, and so is each part's."""
    found, at_ns, at = [], 0.0, 0
    for meaning, ns in by_meaning(parts).items():
        at_ns += ns
        end = min(round(at_ns / scale_ns * width), width)
        if end > at:
            found.append(mark(screen, meaning, end - at))
        at = max(at, end)
    return found


def mark(screen: Screen, meaning: Meaning, length: int = 1) -> Span:
    """Return the sign of a meaning, repeated, with its colour."""
    shade = PALETTE[meaning]
    return (shade.sign if screen.is_ascii else shade.block) * length, shade.terminal


def _line(screen: Screen, numbers: str, drawn: Span, bar: int, name: str) -> None:
    """Put a part: numbers, its bar, and its name, which folds beside them or, where there is no room, below."""
    before = _INDENT + len(numbers) + 2 + bar + 2
    beside = screen.width - before
    text = screen.clean(units.shown(name))
    first = (" " * _INDENT + numbers + "  ", "")
    fill = " " * (bar - cell_len(drawn[0]) + 2)
    if beside < _MIN_NAME and cell_len(text) > beside:
        screen.put(first, drawn)
        screen.say(text, indent=2 * _INDENT)
        return
    start, *more = wrapped(text, beside)
    screen.put(first, drawn, (fill + start, ""))
    for line in more:
        screen.put((" " * before + line, ""))


def _legend(screen: Screen, meanings: Sequence[Meaning]) -> None:
    """Put what the signs mean, as many on a line as there is room for."""
    spans: list[Span] = []
    used = _INDENT
    for meaning in meanings:
        text = f" {meaning.value}"
        if spans and used + 3 + 1 + len(text) > screen.width:
            screen.put((" " * _INDENT, ""), *spans)
            spans, used = [], _INDENT
        if spans:
            spans.append(("   ", ""))
            used += 3
        spans += [mark(screen, meaning), (text, "")]
        used += 1 + len(text)
    if spans:
        screen.put((" " * _INDENT, ""), *spans)


def _share(ns: float, step_ns: float) -> str:
    return f"{units.percent(ns / step_ns):>7}"
