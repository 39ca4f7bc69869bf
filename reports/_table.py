"""Lays out a table in the room there is: names fold, then stand above their numbers, and a number is never cut."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from fdprof.reports._console import Screen, wrapped
from rich.cells import cell_len

_INDENT = 2
_GAPS = (3, 2)
_MIN_HEADING = 8
_MIN_NAME = 16
_FOLDS = 2  # A name of more lines stands above its numbers instead.

Row = Sequence[str]
"""A name and its numbers, which may be fewer than there are headings."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """Widths of the name and of each number, and the gap between two."""

    name: int
    numbers: tuple[int, ...]
    gap: int

    @property
    def total(self) -> int:
        return self.name + sum(self.numbers) + self.gap * len(self.numbers)


def show_table(screen: Screen, headings: Sequence[str], sections: Sequence[Sequence[Row]]) -> None:
    """Put a table, its numbers to the right; `headings` are those of the numbers, sections have a line between them."""
    headings = [screen.clean(heading) for heading in headings]
    cleaned = [[[screen.clean(cell) for cell in row] for row in rows] for rows in sections if rows]
    rows = [row for section in cleaned for row in section]
    if not rows:
        return
    room = screen.width - _INDENT
    layout = _layout(room, headings, rows)
    if layout is not None:
        _put_table(screen, layout, headings, cleaned)
        return
    columns = _beside(room, headings, rows)
    if columns is None:
        _stacked(screen, headings, cleaned)
        return
    # The other columns follow below, with the names again.
    show_table(screen, headings[:columns], _cut(cleaned, slice(1, columns + 1)))
    screen.blank()
    show_table(screen, headings[columns:], _cut(cleaned, slice(columns + 1, None)))


def _cut(sections: Sequence[Sequence[Row]], part: slice) -> list[list[Row]]:
    """Return the rows with a part of their cells, without those that have none there."""
    return [[[row[0], *row[part]] for row in section if any(row[part])] for section in sections]


def width_of(screen: Screen, headings: Sequence[str], rows: Sequence[Row]) -> int:
    """Return the cells that a table takes in which nothing folds."""
    layout = _natural([screen.clean(entry) for entry in headings], [[screen.clean(c) for c in row] for row in rows], 3)
    return layout.total + _INDENT


def _natural(headings: Sequence[str], rows: Sequence[Row], gap: int) -> _Layout:
    numbers = tuple(max(cell_len(headings[at]), _widest(rows, at)) for at in range(len(headings)))
    return _Layout(max(cell_len(row[0]) for row in rows), numbers, gap)


def _widest(rows: Sequence[Row], at: int) -> int:
    return max((cell_len(row[at + 1]) for row in rows if len(row) > at + 1), default=0)


def _layout(room: int, headings: Sequence[str], rows: Sequence[Row]) -> _Layout | None:
    """Return the widest layout that fits: as it is, with folded headings, folded names, or long names above.

    None where short names and the numbers do not fit beside each other, or not even the numbers do.
    """
    for gap in _GAPS:
        layout = _natural(headings, rows, gap)
        if layout.total <= room:
            return layout
    folded = _folded(layout, headings, rows, room)
    if folded.total <= room:
        return folded
    beside = sum(layout.numbers) + layout.gap * len(layout.numbers)
    name = room - beside
    if name >= _MIN_NAME and all(len(wrapped(row[0], name)) <= _FOLDS for row in rows):
        return _Layout(name, layout.numbers, layout.gap)
    is_long = layout.name > room // 2
    return _Layout(0, layout.numbers, layout.gap) if beside <= room and is_long else None


def _folded(layout: _Layout, headings: Sequence[str], rows: Sequence[Row], room: int) -> _Layout:
    """Return the layout with its longest headings folded, as far as it takes to fit and as their numbers allow."""
    least = [max(_widest(rows, at), min(cell_len(heading), _MIN_HEADING)) for at, heading in enumerate(headings)]
    numbers = list(layout.numbers)
    for _ in range(layout.total - room):
        can_fold = [at for at, width in enumerate(numbers) if width > least[at]]
        if not can_fold:
            break
        numbers[max(can_fold, key=numbers.__getitem__)] -= 1
    return _Layout(layout.name, tuple(numbers), layout.gap)


def _beside(room: int, headings: Sequence[str], rows: Sequence[Row]) -> int | None:
    """Return how many columns to put beside the names, so that the tables are few and alike; None: no one fits."""
    layout = _natural(headings, rows, _GAPS[-1])
    widths = [layout.name + sum(layout.numbers[:count]) + layout.gap * count for count in range(1, len(headings) + 1)]
    fitting = sum(width <= room for width in widths)
    return ceil(len(headings) / ceil(len(headings) / fitting)) if 0 < fitting < len(headings) else None


def _put_table(screen: Screen, layout: _Layout, headings: Row, sections: Sequence[Sequence[Row]]) -> None:
    _put_row(screen, layout, ["", *headings], "bold")
    screen.put((" " * _INDENT + screen.clean("─") * layout.total, ""))
    for number, section in enumerate(section for section in sections if section):
        if number:
            screen.blank()
        for row in section:
            _put_row(screen, layout, row)


def _put_row(screen: Screen, layout: _Layout, row: Row, style: str = "") -> None:
    """Put a row, each cell folded at its column's width; in a layout without names the name stands above."""
    name, *cells = row
    if not layout.name and name:
        for line in wrapped(name, screen.width - _INDENT):
            screen.put((" " * _INDENT + line, style))
    columns = [wrapped(name, layout.name) if layout.name else [""]]
    columns += [wrapped(cell, width) for cell, width in zip(cells, layout.numbers, strict=False)]
    height = max(len(lines) for lines in columns)
    # The end of a heading stands right above its numbers, a name begins beside them.
    at_end = style != ""
    for number in range(height):
        line = ""
        for index, lines in enumerate(columns):
            at = number - (height - len(lines)) if at_end else number
            text = lines[at] if 0 <= at < len(lines) else ""
            width = layout.numbers[index - 1] + layout.gap if index else layout.name
            fill = " " * (width - cell_len(text))
            line += fill + text if index else text + fill
        screen.put((" " * _INDENT + line, style))


def _stacked(screen: Screen, headings: Sequence[str], sections: Sequence[Sequence[Row]]) -> None:
    """Put each row as its name and a list of numbers, each behind its heading."""
    for name, *cells in (row for section in sections for row in section):
        screen.say(name, indent=_INDENT)
        line = ""
        for pair in (f"{heading} {cell}" for heading, cell in zip(headings, cells, strict=False) if cell):
            joined = f"{line}  {pair}" if line else pair
            if line and cell_len(joined) > screen.width - 2 * _INDENT:
                screen.say(line, indent=2 * _INDENT)
                joined = pair
            line = joined
        screen.say(line, indent=2 * _INDENT)
