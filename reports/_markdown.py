"""GitHub-flavoured Markdown that shows any text as it is, and keeps within what a comment holds.

It owns escaping, tables and folding, and knows no result.
"""

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fdprof import units

MOST_CHARACTERS = 60_000
"""GitHub takes 65,536 in a comment; the rest is for what a workflow puts around the page."""

_RESERVE = 1_500  # for the sentence about what is left out

_MEANING = {character: f"\\{character}" for character in "\\`*_{}[]<>#|~&!"} | {"$": "&#36;"}
"""Characters that mean something to Markdown, HTML or mathematics: a kernel's name must not."""

# GitHub links these in the finished text, where a backslash is gone: a sign without width keeps them apart.  The mark
# that holds its place cannot be in a text: it is not printable, so it would have been escaped.
_MARK, _APART = "\ue000", "&#8203;"
_LINKED = re.compile(
    r"(?<=@)(?=\w)"  # a person
    r"|(?<=#)(?=\d)|(?i:(?<=\bGH-))(?=\d)"  # an issue
    r"|(?<=:)(?=//)|(?i:(?<=\bwww))(?=\.)"  # an address
    r"|(?<=:)(?=[\w+-]+:)"  # an emoji by its name
)
_BEGINS = re.compile(r"^\s*(?:([-+=:])|(\d+)([.)]))")


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a page that stands or is left out as a whole; `name` says what it is where it is left out.

    What is `needed` gets its room first.
    """

    name: str
    lines: tuple[str, ...]
    needed: bool = False

    @property
    def text(self) -> str:
        return "\n".join(self.lines).strip("\n") + "\n\n"


def page_of(blocks: Iterable[Block]) -> str:
    """Return the page; what a comment has no room for is left out whole, and the page says so."""
    there = [block for block in blocks if block.text.strip()]
    room = MOST_CHARACTERS - _RESERVE
    kept = set()
    for number, block in sorted(enumerate(there), key=lambda entry: not entry[1].needed):
        if len(block.text) <= room:
            kept.add(number)
            room -= len(block.text)
    page = "".join(block.text for number, block in enumerate(there) if number in kept)
    left_out = [block.name for number, block in enumerate(there) if number not in kept]
    if left_out:
        names = ", ".join(dict.fromkeys(left_out))
        page += (
            f"Left out, because a comment holds no more: {names} ({units.counted(len(left_out), 'part')}). The other "
            "formats have everything."
        )
    return page.rstrip("\n") + "\n"


def text(plain: str) -> str:
    """Return what shows a text as it is, inside a paragraph, a list or a table."""
    apart = _LINKED.sub(_MARK, units.printable(plain))
    return "".join(_MEANING.get(character, character) for character in apart).replace(_MARK, _APART)


def paragraph(plain: str) -> str:
    """Return what shows a text as it is where a line begins: no list, heading or rule comes of it."""
    return _BEGINS.sub(lambda found: f"\\{found[1]}" if found[1] else f"{found[2]}\\{found[3]}", text(plain.strip()))


def code(name: str) -> str:
    """Return what shows a name in a typewriter's letters; nothing in it is linked or replaced."""
    shown = units.shown(name)
    if not shown or shown != shown.strip() or set(shown) & set("`\\|"):
        escaped = "".join(c if c.isalnum() or c in " .,-" else f"&#{ord(c)};" for c in shown)
        return f"<code>{escaped}</code>"
    return f"`{shown}`"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table of cells that are Markdown already; rows may be shorter than its head."""
    if not rows:
        return []
    width = len(head)
    lines = ["| " + " | ".join((*row, *[""] * (width - len(row)))) + " |" for row in (head, *rows)]
    return [lines[0], "| " + " | ".join(["---", *["---:"] * (width - 1)]) + " |", *lines[1:]]


def folded(summary: str, lines: Sequence[str]) -> list[str]:
    """Return lines behind a summary in plain words that a reader opens."""
    return ["<details>", f"<summary>{html.escape(summary)}</summary>", "", *lines, "", "</details>"]
