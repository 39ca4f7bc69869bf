"""A page of text as it is written: lines that fit a width, with or without colour, in any encoding.

It owns wrapping, characters and colours, and knows no result.
"""

import re
import shutil
from collections.abc import Mapping
from io import StringIO
from typing import TextIO

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.text import Text

from fdprof import units

MIN_WIDTH = 40
"""A narrower terminal wraps the lines itself."""

_PROSE = 120  # Longer lines are hard to read.
_PIPE = 100  # The width where nobody says one.
_WIDEST = 1_000  # No page is that wide; a bar of a billion signs would take the memory.

_ASCII = str.maketrans(
    {"µ": "u", "±": "+-", "×": "x", "…": "...", "─": "-", "→": "->", "–": "-", "—": "-", "≥": ">=", "≤": "<="}
)
"""What is written for our own signs where the output carries ASCII only; other text is written as its code."""

_PROBE = "µ±×─█▓▒░·╳▞漢\U0001f600"
"""An encoding that carries these carries every name."""

# A number stays with its unit.  The sign cannot be in a text: it is not printable, so `clean` has escaped it.
_GLUE = "\ue000"
_IN_NUMBERS = re.compile(r"(?<=\d) (?=(?:[µu]s|ns|%|B|[KMG]iB)(?!\w))|(?<=\d) (?=[×x] \d)|(?<=[×x]) (?=\d)")


class Screen:
    """Lines of one report.  Whatever is put on it is escaped, wrapped and, if need be, turned into ASCII."""

    def __init__(self, width: int, color: bool, is_ascii: bool) -> None:
        self.width = max(width, MIN_WIDTH)
        self.color = color
        self.is_ascii = is_ascii
        self._lines: list[Text] = []

    def clean(self, text: str) -> str:
        """Return the text as this page can show it: nothing in it drives a terminal or fails to encode."""
        printable = units.printable(text)
        if not self.is_ascii:
            return printable
        return printable.translate(_ASCII).encode("ascii", "backslashreplace").decode("ascii")

    def say(self, text: str, indent: int = 0, hang: int = 0, style: str = "") -> None:
        """Put a paragraph, indented, its further lines by `hang` more."""
        width = min(self.width, _PROSE)
        for number, line in enumerate(wrapped(self.clean(text), width - indent - hang, hang)):
            self.put((" " * (indent + (hang if number else 0)) + line, style))

    def put(self, *spans: tuple[str, str]) -> None:
        """Put one line of clean texts, each with its style; it has to fit."""
        line = Text(no_wrap=True, end="")
        for text, style in spans:
            line.append(text, style)
        line.rstrip()
        self._lines.append(line)

    def title(self, text: str) -> None:
        """Put the heading of a part, behind an empty line."""
        self.blank()
        self.say(text, style="bold")

    def blank(self) -> None:
        """Put an empty line, but never a second one or one at the top."""
        if self._lines and self._lines[-1].plain:
            self._lines.append(Text(end=""))

    def text(self) -> str:
        """Return the page."""
        sink = StringIO()
        console = Console(
            file=sink,
            width=self.width,
            force_terminal=self.color,
            color_system="standard" if self.color else None,
            no_color=not self.color,
            legacy_windows=False,
            highlight=False,
            markup=False,
            emoji=False,  # std:key:x is a name
        )
        lines = self._lines if not self._lines or self._lines[-1].plain else self._lines[:-1]
        for line in lines:
            console.print(line, soft_wrap=True)
        return sink.getvalue()


def wrapped(text: str, width: int, hang: int = 0) -> list[str]:
    """Return the lines of a clean text, none wider than `width`; the first one may be wider by `hang`.

    A number is not parted from its unit.  Only a word that is longer than a line is cut.
    """
    lines: list[str] = []
    line, room = "", width + hang
    for word in _IN_NUMBERS.sub(_GLUE, text).split(" "):
        joined = f"{line} {word}" if line else word
        if cell_len(joined) <= room:
            line = joined
            continue
        if line:
            lines.append(line)
            room = width
        *full, line = chop_cells(word, room) or [""]
        if full:
            lines.extend(full)
            room = width
    return [line.replace(_GLUE, " ") for line in (*lines, line)]


def look_of(stream: TextIO, environ: Mapping[str, str], columns: int | None = None) -> tuple[int, bool, bool]:
    """Return the width of the output, whether it takes colours, and whether it carries ASCII only.

    Colours go to a terminal, and with FORCE_COLOR or CLICOLOR_FORCE elsewhere too; never where TERM is `dumb` or
    NO_COLOR is set to anything.  The width is `columns`, COLUMNS, the terminal's own, or 100 where there is none of
    them.
    """
    is_terminal = stream.isatty()
    is_forced = bool(environ.get("FORCE_COLOR")) or environ.get("CLICOLOR_FORCE", "0") not in ("", "0")
    is_dumb = environ.get("TERM", "").lower() in ("dumb", "unknown")
    color = (is_terminal or is_forced) and not is_dumb and not environ.get("NO_COLOR")
    return _width(is_terminal, environ, columns), color, not _carries(stream, _PROBE)


def _width(is_terminal: bool, environ: Mapping[str, str], columns: int | None) -> int:
    if columns is not None:
        return min(columns, _WIDEST)
    given = environ.get("COLUMNS", "")
    if given.isascii() and given.isdigit() and int(given) > 0:
        return min(int(given[:9]), _WIDEST)
    return shutil.get_terminal_size((_PIPE, 24)).columns if is_terminal else _PIPE


def _carries(stream: TextIO, text: str) -> bool:
    """Return whether a stream's encoding has all of these characters."""
    try:
        text.encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
