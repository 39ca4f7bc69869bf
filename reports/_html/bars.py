"""The bars of the HTML report: where a step goes, and the way from one mean step to another.

Widths are shares of what was given, in thousandths of a bar; nothing is summed up here but what is too small to list.
"""

from collections.abc import Mapping, Sequence

from fdprof.reports._html import theme
from fdprof.reports._html.view import Bar, BarRow, Bars, Stretch, Waterfall
from fdprof.reports._parts import Part

from fdprof import units
from fdprof.meanings import Meaning, meaning_of_part

_WHOLE = 1000.0
_ROWS_SHOWN = 24

Parts = Mapping[str, float]
"""Mean ns a step by part, which add up to the mean step."""


def bars_of(given: Sequence[tuple[str, Sequence[Part]]], notes: tuple[str, ...] = ()) -> Bars | None:
    """Return the bars of one or two sides, on the scale of the longest; None where no side has any part."""
    sides = [(units.shown(label), {part.name: part.ns for part in parts}) for label, parts in given if parts]
    longest = max((sum(parts.values()) for _, parts in sides), default=0.0)
    if longest <= 0:
        return None
    names = _in_order([name for _, parts in sides for name in parts], [parts for _, parts in sides])
    used = {_meaning(name) for name in names}
    several = len(sides) > 1
    head = ("part", *((label for label, _ in sides) if several else ("µs a step", "share")))
    return Bars(
        bars=tuple(_bar(label, parts, names, longest) for label, parts in sides),
        head=(*head, "change") if several else head,
        rows=tuple(_rows(sides, names, longest)),
        meanings=tuple((theme.css_of(meaning), meaning.value) for meaning in Meaning if meaning in used),
        notes=notes,
    )


def _in_order(names: Sequence[str], sides: Sequence[Parts]) -> list[str]:
    """Return the parts as they are drawn: what the device does, then why it idles, the largest of each first."""
    order = list(Meaning)
    longest = {name: max(parts.get(name, 0.0) for parts in sides) for name in names}
    per_meaning: dict[Meaning, float] = {}
    for name, ns in longest.items():
        meaning = _meaning(name)
        per_meaning[meaning] = per_meaning.get(meaning, 0.0) + ns
    is_idle = {meaning: meaning not in (Meaning.BUSY, Meaning.COPY) for meaning in Meaning}
    return sorted(
        longest,
        key=lambda name: (
            is_idle[_meaning(name)],
            -per_meaning[_meaning(name)],
            order.index(_meaning(name)),
            -longest[name],
        ),
    )


def _bar(label: str, parts: Parts, names: Sequence[str], longest: float) -> Bar:
    at, stretches = 0.0, []
    for name in names:
        ns = parts.get(name, 0.0)
        if ns > 0:
            text = f"{units.shown(name)}: {units.us(ns)} µs"
            stretches.append(stretch(_css(name), at / longest, ns / longest, text))
        at += ns
    return Bar(label, f"{units.us(at)} µs a step", tuple(stretches))


def _rows(sides: Sequence[tuple[str, Parts]], names: Sequence[str], longest: float) -> list[BarRow]:
    several = len(sides) > 1
    shown = sorted(names, key=lambda name: -max(parts.get(name, 0.0) for _, parts in sides))[:_ROWS_SHOWN]
    rows, left = [], [0.0 for _ in sides]
    at = 0.0
    for name in names:
        values = [parts.get(name, 0.0) for _, parts in sides]
        if name not in shown:
            left = [before + value for before, value in zip(left, values, strict=True)]
            at += values[0]
            continue
        pieces = () if several else (stretch(_css(name), at / longest, values[0] / longest, ""),)
        rows.append(BarRow(_css(name), (units.shown(name), *_numbers(values, longest)), pieces))
        at += values[0]
    if len(names) > len(shown):
        rows.append(BarRow("", (units.counted(len(names) - len(shown), "other"), *_numbers(left, longest))))
    totals = [sum(parts.values()) for _, parts in sides]
    return [*rows, BarRow("", ("step", *_numbers(totals, longest)), is_total=True)]


def _numbers(values: Sequence[float], longest: float) -> tuple[str, ...]:
    if len(values) == 1:
        return (units.us(values[0]), units.percent(values[0] / longest))
    change = values[1] - values[0]
    return (*(units.us(value) for value in values), f"{change / units.NS_PER_US:+,.1f}" if change else "0.0")


def waterfall_of(
    labels: tuple[str, str], means_ns: tuple[float, float], parts: Mapping[str, int], step_ns: int
) -> Waterfall:
    """Return the way from the baseline's mean step to the candidate's, part by part."""
    changes = [(name, ns) for name, ns in parts.items() if ns]
    levels = [means_ns[0]]
    for _, ns in changes:
        levels.append(levels[-1] + ns)
    low, high = min(*levels, means_ns[1]), max(*levels, means_ns[1])
    # A change of a hundredth of the step would be a line: then the bars begin where the changes do.
    room = 0.1 * (high - low)
    first = 0.0 if low - room < 0.5 * high else low - room
    last = high + (room if first else 0.0)
    span = max(last - first, 1.0)

    def between(start: float, end: float, css: str) -> tuple[Stretch, ...]:
        low, high = min(start, end), max(start, end)
        return (stretch(css, (low - first) / span, (high - low) / span, ""),)

    rows = [BarRow("", (labels[0], units.us(means_ns[0])), between(first, means_ns[0], "whole-a"), is_total=True)]
    for (name, ns), at in zip(changes, levels, strict=False):
        rows.append(BarRow(_css(name), (units.shown(name), units.signed_us(ns)), between(at, at + ns, _css(name))))
    rows.append(BarRow("", ("together", units.signed_us(step_ns)), (), is_total=True))
    rows.append(BarRow("", (labels[1], units.us(means_ns[1])), between(first, means_ns[1], "whole-b"), is_total=True))
    scale = f"bars from {units.us(first)} to {units.us(last)} µs"
    if first:
        scale += ": they do not begin at 0"
    return Waterfall(f"from {labels[0]} to {labels[1]}", ("", "µs a step"), tuple(rows), scale)


def stretch(css: str, start: float, width: float, label: str = "") -> Stretch:
    """Return a piece of a bar by its shares of the bar."""
    return Stretch(css, f"{start * _WHOLE:.3f}", f"{width * _WHOLE:.3f}", label)


def _meaning(name: str) -> Meaning:
    """Return the meaning of a part; a baseline file that a person wrote may name others."""
    try:
        return meaning_of_part(name)
    except ValueError:
        return Meaning.NOT_CAPTURED


def _css(name: str) -> str:
    return theme.css_of(_meaning(name))
