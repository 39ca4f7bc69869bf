"""A table as CSV: UTF-8, one line a row, and no cell that a spreadsheet takes for a formula.

As RFC 4180, but with lines that end in LF.  Empty: not observed.
"""

import csv
import json
from collections.abc import Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

from fdprof.units import printable

if TYPE_CHECKING:  # pandas is behind it
    from fdprof.tables import Column, Frame

_QUOTE = "'"
_FORMULA = (*"=+-@＝＋－＠", _QUOTE)
"""How a cell begins that a spreadsheet may run, also by signs of full width; and the quote itself, so that to take one
away always gives back what was there."""


def csv_text(frame: "Frame", columns: "Sequence[Column]") -> str:
    """Return a table with a line of names above it."""
    sink = StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow([column.name for column in columns])
    cells = (frame[column.name].astype(object).where(frame[column.name].notna(), None) for column in columns)
    writer.writerows([_cell(value) for value in row] for row in zip(*cells, strict=True))
    return sink.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return _safe(value)
    if isinstance(value, dict):
        return json.dumps(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)  # of a float the shortest text that gives it back


def _safe(text: str) -> str:
    """Return a text that stays on its line, drives no terminal and is no formula."""
    shown = printable(text)
    return _QUOTE + shown if shown.lstrip().startswith(_FORMULA) else shown
