"""The chosen steps as spans to draw: what the host did, why the device was idle, what its streams ran, and how copies
hang together.  All in columns; nothing is clipped, and nothing is drawn here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from fdprof.analysis.facts import Facts
from fdprof.analysis.intervals import Ns
from fdprof.analysis.levels import levels_of
from fdprof.analysis.sources import MEANINGS, LaneKind, Source, sources_of
from fdprof.analysis.transfers import copies_of, waits_of_copies
from fdprof.capture import NONE
from fdprof.finding import Finding
from fdprof.model import IntColumn

__all__ = ["MEANINGS", "Lane", "LaneKind", "Spans", "Timeline", "Transfers", "steps_to_draw", "timeline_of"]


@dataclass(frozen=True, slots=True)
class Lane:
    """One row of a drawing, of spans that do not overlap.  Spans within others are on lanes of their own, by depth."""

    kind: LaneKind
    label: str
    depth: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Spans by start; of those that begin together on one lane's host thread or stream the longer comes first."""

    lane: IntColumn  # index into Timeline.lanes
    start_ns: Ns
    end_ns: Ns
    meaning: IntColumn  # index into MEANINGS
    name: IntColumn  # index into Timeline.names
    size_bytes: IntColumn  # of copies and memsets, -1: none or not known
    issued_by: IntColumn  # the span of the call that issued this device work, -1: none in the timeline

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass(frozen=True, slots=True, eq=False)
class Transfers:
    """Copies between host and device as flows; each column holds indices of spans, -1 where there is none.

    `wait` is the call that the host waited in: one fence that covers several copies is the wait of each.  A copy that
    blocks waits in its own call and has none, nor has one whose wait lies outside the timeline.
    """

    issue: IntColumn
    copy: IntColumn
    wait: IntColumn

    def __len__(self) -> int:
        return len(self.issue)


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """The spans that touch the chosen steps' windows.  `positions` are among the analysed steps, ascending."""

    positions: IntColumn
    numbers: IntColumn  # as the steps' markers give them
    starts_ns: Ns
    ends_ns: Ns
    lanes: tuple[Lane, ...]
    names: tuple[str, ...]
    spans: Spans
    flows: Transfers

    @property
    def step_of_spans(self) -> IntColumn:
        """The first of the steps that each span touches, as an index into the columns of steps."""
        return np.searchsorted(self.ends_ns, self.spans.start_ns, side="right")


_ALWAYS_THERE = (LaneKind.CALLS, LaneKind.IDLE)
"""Lanes that say something by being empty: the host makes no call, the device is never idle."""


def timeline_of(facts: Facts, positions: IntColumn | None = None) -> Timeline:
    """Return the spans that touch the windows of these steps, each once and whole; None: of all steps."""
    steps = facts.steps
    chosen = np.arange(len(steps)) if positions is None else np.unique(np.asarray(positions, dtype=np.int64))
    starts, ends = steps.starts_ns[chosen], steps.ends_ns[chosen]
    sources = [source.of(_touching(source, starts, ends)) for source in sources_of(facts)]
    sources = [source for source in sources if len(source) or source.kind in _ALWAYS_THERE]
    lanes: list[Lane] = []
    lane: list[IntColumn] = []
    names: dict[str, int] = {}
    name: list[IntColumn] = []
    for source in sources:
        level = levels_of(source.start_ns, source.end_ns)
        lane.append(level + len(lanes))
        deepest = int(level.max(initial=0))
        lanes += [Lane(source.kind, source.label, depth) for depth in range(deepest + 1)]
        name.append(_named(names, source))
    start_ns = _joined([source.start_ns for source in sources])
    # Each source is in order, and a stable sort keeps it so where spans begin together.
    order = np.argsort(start_ns, kind="stable")
    columns = {
        column: _joined([getattr(source, column) for source in sources])[order]
        for column in ("end_ns", "meaning", "size_bytes", "api", "row")
    }
    api, row = columns.pop("api"), columns.pop("row")
    is_call = (api != NONE) & (row == NONE)
    of_call = np.full(len(facts.capture.api) + 1, NONE, dtype=np.int64)  # the last stays -1, for a call that is -1
    of_call[api[is_call]] = np.flatnonzero(is_call)
    of_row = np.full(len(facts.capture.device) + 1, NONE, dtype=np.int64)
    of_row[row[row != NONE]] = np.flatnonzero(row != NONE)
    spans = Spans(
        lane=_joined(lane)[order],
        start_ns=start_ns[order],
        name=_joined(name)[order],
        issued_by=np.where(row != NONE, of_call[api], NONE),
        **columns,
    )
    flows = _flows(facts, of_call, of_row)
    return Timeline(chosen, steps.numbers[chosen], starts, ends, tuple(lanes), tuple(names), spans, flows)


def steps_to_draw(facts: Facts, findings: Sequence[Finding], worst: Sequence[int], most_spans: int) -> IntColumn:
    """Return the positions of the steps to draw, so that their timeline has at most `most_spans` spans.

    All where they fit.  Else the first, the median one, those of `worst`, those of the findings, and then steps evenly
    spread, each with its neighbours, as far as there is room.  None where not even one fits.
    """
    steps = facts.steps
    count = len(steps)
    sources = list(sources_of(facts))
    if sum(len(_touching(source, steps.starts_ns, steps.ends_ns)) for source in sources) <= most_spans:
        return np.arange(count)
    # A span that touches two windows counts in both: the sum is what they have at most.
    of_step = np.sum([_per_window(source, steps.starts_ns, steps.ends_ns) for source in sources], axis=0).tolist()
    median = int(np.argsort(facts.ledger.window_ns, kind="stable")[(count - 1) // 2])
    wanted = [0, median, *worst, *(step for finding in findings for step in finding.steps), *_spread(count)]
    chosen: set[int] = set()
    room = most_spans
    for position in wanted:
        # The step itself first, and its neighbours where there is room for them too.
        for each in (position, position - 1, position + 1):
            if 0 <= each < count and each not in chosen and of_step[each] <= room:
                chosen.add(each)
                room -= of_step[each]
            elif each == position and each not in chosen:
                break
    return np.array(sorted(chosen), dtype=np.int64)


def _spread(count: int) -> list[int]:
    """Return all positions in an order of which every beginning is evenly spread: halves, then quarters, and so on."""
    bits = max(count - 1, 1).bit_length()
    position = np.arange(1 << bits)
    reversed_ = np.zeros_like(position)
    for bit in range(bits):
        reversed_ |= ((position >> bit) & 1) << (bits - 1 - bit)
    return [int(each) for each in reversed_[reversed_ < count]]


def _touching(source: Source, starts: Ns, ends: Ns) -> IntColumn:
    """Return which spans of a source have a part in one of these windows, as row numbers; an empty one if it is in."""
    at = np.searchsorted(ends, source.start_ns, side="right")  # the first window that ends behind the span's start
    begin = np.append(starts, np.iinfo(np.int64).max)[at]
    return np.flatnonzero((begin < source.end_ns) | (begin <= source.start_ns))


def _per_window(source: Source, starts: Ns, ends: Ns) -> IntColumn:
    """Return how many spans of a source touch each window."""
    lasting = source.end_ns > source.start_ns
    ended = np.searchsorted(np.sort(source.end_ns[lasting]), starts, side="right")
    empty_before = np.searchsorted(source.start_ns[~lasting], starts, side="left")
    return np.asarray(np.searchsorted(source.start_ns, ends, side="left") - ended - empty_before)


def _named(names: dict[str, int], source: Source) -> IntColumn:
    """Return the numbers of a source's names among `names`, to which those that are new are added."""
    used = np.flatnonzero(np.bincount(source.name))
    number = np.zeros(int(used.max(initial=0)) + 1, dtype=np.int64)
    for name in used.tolist():
        number[name] = names.setdefault(source.text(name), len(names))
    return number[source.name]


def _joined(parts: Sequence[IntColumn]) -> IntColumn:
    return np.concatenate(parts).astype(np.int64) if parts else np.zeros(0, dtype=np.int64)


def _flows(facts: Facts, of_call: IntColumn, of_row: IntColumn) -> Transfers:
    """Return the flows of the copies of which the call or the copy itself is in the timeline.

    `of_call` and `of_row` give the spans of calls and of device rows, -1 for none, and so does their last entry.
    """
    capture, calls = facts.capture, facts.calls
    if facts.device is None:
        return Transfers(*(np.zeros(0, dtype=np.int64) for _ in fields(Transfers)))
    copies = copies_of(capture, facts.device)
    thread = np.append(capture.api["thread"], NONE)[copies.api]
    shown = (of_call[copies.api] != NONE) | (of_row[copies.row] != NONE)
    copies = copies.of(np.flatnonzero(shown & ((thread == facts.steps.thread) | (copies.api == NONE))))
    wait = waits_of_copies(capture, calls, copies)
    # A copy that blocks is its own wait, and a wait that did not begin after its call (by a wrong link) is none.
    begin = np.append(calls.start_ns, 0)
    wait[np.append(calls.blocks, False)[copies.api] | (begin[wait] <= begin[copies.api])] = NONE
    return Transfers(of_call[copies.api], of_row[copies.row], of_call[wait])
