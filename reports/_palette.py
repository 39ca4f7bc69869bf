"""The one palette of all reports: what each meaning looks like, wherever it is drawn.

It knows no result and lays nothing out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from fdprof.meanings import Meaning


@dataclass(frozen=True, slots=True)
class Shade:
    """How one meaning is drawn.

    `terminal` is one of the eight basic colours or its bright form, which every terminal has and its user may have
    chosen for his background.  `light` and `dark` are for pages as light as #ffffff and as dark as #14161a.  `block`
    and `sign` fill a bar where there is no colour: the one where the output can carry it, the other in ASCII.
    """

    terminal: str
    light: str
    dark: str
    block: str
    sign: str


# The hues are those of Okabe and Ito, moved in lightness until each has a contrast of 3:1 with the page and any two
# are told apart with every kind of colour blindness (tests/unit/test_reports_palette.py computes both).
PALETTE: Mapping[Meaning, Shade] = MappingProxyType(
    {
        Meaning.BUSY: Shade("green", "#2ca399", "#8dcead", "█", "#"),
        Meaning.COPY: Shade("cyan", "#1b70aa", "#5794e7", "▓", "="),
        Meaning.QUEUED: Shade("blue", "#2d3f8d", "#495bd0", "·", "q"),
        Meaning.BLOCKED: Shade("red", "#c34801", "#c41e11", "╳", "b"),
        Meaning.ALLOCATE: Shade("bright_red", "#613e07", "#a7897e", "▞", "a"),
        Meaning.LAUNCH: Shade("magenta", "#914a65", "#904e7b", "▒", "l"),
        Meaning.HOST: Shade("yellow", "#da7c00", "#ffcc2c", "░", "h"),
        Meaning.NOT_CAPTURED: Shade("bright_black", "#292e34", "#e7f0f6", "?", "?"),
    }
)
