"""What the templates of the HTML report lay out: texts, rows and links, all of them made already."""

from collections.abc import Mapping
from dataclasses import dataclass, field

Json = dict[str, object]
"""What goes into the page as data: objects of texts, numbers, lists and objects."""


@dataclass(frozen=True, slots=True)
class StepLink:
    """A link to a step: `side` counts the sides of the part, `position` the side's analysed steps from 0."""

    text: str
    part: str
    side: int
    position: int


Cell = str | StepLink


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose first column names the rows; `words` are the numbers of further columns that hold no numbers."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    words: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stretch:
    """A piece of a bar, in thousandths of the bar's whole width; `css` is the class of its meaning."""

    css: str
    start: str
    width: str
    label: str


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: whose it is, how long in words, and its pieces."""

    label: str
    total: str
    stretches: tuple[Stretch, ...]


@dataclass(frozen=True, slots=True)
class BarRow:
    """A row of a table that has a bar of its own."""

    css: str
    cells: tuple[str, ...]
    stretches: tuple[Stretch, ...] = ()
    is_total: bool = False


@dataclass(frozen=True, slots=True)
class Bars:
    """Where a step goes: a bar for each side on one scale, and the same as a table with a bar's piece in each row."""

    bars: tuple[Bar, ...]
    head: tuple[str, ...]
    rows: tuple[BarRow, ...]
    meanings: tuple[tuple[str, str], ...]  # class and name, of the legend
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Waterfall:
    """The way from one mean step to the other, row by row; `scale` says in words what the bars' ends are."""

    title: str
    head: tuple[str, ...]
    rows: tuple[BarRow, ...]
    scale: str


@dataclass(frozen=True, slots=True)
class Ratios:
    """Ratios with their intervals, a bar in each row; `scale` says in words what the bars' ends are."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[BarRow, ...]
    scale: str


@dataclass(frozen=True, slots=True)
class FindingView:
    """A finding in words, with the steps that show it."""

    code: str
    certainty: str
    cost: str  # empty: it is about something else than time
    text: str
    advice: str
    steps: tuple[StepLink, ...]


@dataclass(frozen=True, slots=True)
class Badge:
    """A word that stands out beside the title."""

    text: str
    css: str


@dataclass(frozen=True, slots=True)
class Side:
    """What there is to show of one run or capture by itself."""

    label: str  # empty where there is only one side
    lines: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    findings: tuple[FindingView, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """One result of the page.  `data` is what its charts and its timeline are drawn from; empty: there are none."""

    id: str
    title: str
    badges: tuple[Badge, ...] = ()
    sentences: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()  # what was measured: term and text
    gates: tuple[tuple[str, str, str], ...] = ()  # option, outcome, text
    mismatches: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    bars: Bars | None = None
    numbers: tuple[Table, ...] = ()
    lines: tuple[str, ...] = ()
    longest: tuple[Table, ...] = ()
    bridge: Waterfall | None = None
    sides: tuple[Side, ...] = ()
    ratios: Ratios | None = None
    has_timeline: bool = False
    data: Mapping[str, object] = field(default_factory=dict)
