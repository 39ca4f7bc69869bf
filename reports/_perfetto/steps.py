"""The tracks of one run's or capture's steps: what a timeline holds, what was found, and each step's times."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from fdprof.reports._perfetto.flows import flows_of
from fdprof.reports._perfetto.slices import nested
from fdprof.reports._perfetto.trace import Events, EventType, Trace, Value

from fdprof.analysis.facts import Facts
from fdprof.analysis.idle import CAUSE_NAMES
from fdprof.analysis.intervals import Ns
from fdprof.analysis.ledger import Ledger
from fdprof.analysis.timeline import MEANINGS, LaneKind, Timeline
from fdprof.capture import NONE
from fdprof.finding import Finding
from fdprof.model import IntColumn

_STEP, _FINDING = len(MEANINGS), len(MEANINGS) + 1
_CATEGORIES = (*(meaning.value for meaning in MEANINGS), "step", "finding")
_SHOWS = {LaneKind.RANGES: ", ranges", LaneKind.CALLS: ", calls", LaneKind.OTHER_THREAD: ", waits"}
"""Of a host thread, whose spans nest; those of a stream and of the idle device have a track for each lane."""

RETURNS = "wait returns"
"""The event in which the flow of a copy ends."""


@dataclass(frozen=True, slots=True, eq=False)
class _Slices:
    """The spans of a timeline, and behind them the windows of its steps."""

    start_ns: Ns
    end_ns: Ns
    name: IntColumn
    category: IntColumn
    step: IntColumn  # its number
    size_bytes: IntColumn
    names: list[str]


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """The events of one track, in order."""

    track: int
    time_ns: Ns
    type: IntColumn
    slice: IntColumn  # -1: the event is of none
    name: IntColumn
    category: IntColumn
    step: IntColumn
    value: IntColumn
    notes: Sequence[dict[str, Value]] = field(default=())


def lead_ns(timeline: Timeline) -> int:
    """Return how long before the first step the first span begins; 0 if none does."""
    starts = timeline.spans.start_ns
    return max(int(timeline.starts_ns[0]) - int(starts[0]), 0) if len(starts) else 0


def add_steps(
    trace: Trace, process: int, facts: Facts, timeline: Timeline, findings: Sequence[Finding], zero: int
) -> None:
    """Add the tracks of all steps below `process`, so that the first one begins at `zero` ns."""
    slices = _slices_of(timeline)
    windows = np.arange(len(timeline.spans), len(slices.name))
    layout = [("steps", windows, np.arange(2 * len(windows))), *_layout(timeline)]
    tracks = _Tracks(trace, process, len(layout) + 2)
    parts = []
    for label, rows, walk in layout:
        parts.append(_of_slices(tracks.new(label), slices, rows, walk))
        if label == "steps" and any(finding.steps for finding in findings):
            parts.append(_of_findings(tracks.new("findings"), findings, timeline, slices.names))
    group = tracks.new("each step's time")
    for number, (name, ns) in enumerate(_counters(facts.ledger)):
        parts.append(_of_counter(trace.track(group, name, number, counts_ns=True), ns, timeline))
    returns = _of_returns(parts, slices, timeline)
    trace.add(_in_order([*returns, *parts], slices, timeline, zero - int(timeline.starts_ns[0])))


class _Tracks:
    """Makes the tracks of one group, numbered: below a process readers put them in the order of their names."""

    def __init__(self, trace: Trace, process: int, count: int) -> None:
        self._trace, self._process = trace, process
        self._made, self._digits = 0, len(str(count))

    def new(self, label: str) -> int:
        self._made += 1
        return self._trace.track(self._process, f"{self._made:0{self._digits}d}. {label}", self._made)


def _slices_of(timeline: Timeline) -> _Slices:
    spans, steps = timeline.spans, len(timeline.positions)
    return _Slices(
        start_ns=np.concatenate((spans.start_ns, timeline.starts_ns)),
        end_ns=np.concatenate((spans.end_ns, timeline.ends_ns)),
        name=np.concatenate((spans.name, np.arange(steps) + len(timeline.names))),
        category=np.concatenate((spans.meaning, np.full(steps, _STEP))),
        step=np.concatenate((timeline.numbers[timeline.step_of_spans], timeline.numbers)),
        size_bytes=np.concatenate((spans.size_bytes, np.full(steps, NONE))),
        names=[*timeline.names, *(f"step {number}" for number in timeline.numbers.tolist())],
    )


def _layout(timeline: Timeline) -> Iterator[tuple[str, IntColumn, IntColumn]]:
    """Yield each track's label, spans, and the walk through those that are on it; see `nested`."""
    lanes: dict[str, list[int]] = defaultdict(list)
    for number, lane in enumerate(timeline.lanes):
        lanes[lane.label + _SHOWS.get(lane.kind, "")].append(number)
    lane_of = timeline.spans.lane
    for label, numbers in lanes.items():
        rows = np.flatnonzero((lane_of >= numbers[0]) & (lane_of <= numbers[-1]))
        if timeline.lanes[numbers[0]].kind in _SHOWS:
            walks = nested(timeline.spans.start_ns[rows], timeline.spans.end_ns[rows])
        else:
            each = [np.flatnonzero(lane_of[rows] == number) for number in numbers]
            walks = [np.stack((its * 2, its * 2 + 1), axis=1).reshape(-1) for its in each]
        for number, walk in enumerate(walks, start=1):
            yield label if number == 1 else f"{label} ({number})", rows, walk


def _of_slices(track: int, slices: _Slices, rows: IntColumn, walk: IntColumn) -> _Part:
    its, is_end = rows[walk // 2], walk % 2 == 1
    return _Part(
        track=track,
        time_ns=np.where(is_end, slices.end_ns[its], slices.start_ns[its]),
        type=np.where(is_end, int(EventType.END), int(EventType.BEGIN)),
        slice=its,
        name=np.where(is_end, NONE, slices.name[its]),
        category=np.where(is_end, NONE, slices.category[its]),
        step=np.where(is_end, NONE, slices.step[its]),
        value=_none(len(its)),
    )


def _of_findings(track: int, findings: Sequence[Finding], timeline: Timeline, names: list[str]) -> _Part:
    """Return an event at the start of each step that a finding names; the findings' codes are added to `names`."""
    shown = sorted(((at, finding) for finding in findings for at in finding.steps), key=lambda entry: entry[0])
    at = np.array([position for position, _ in shown], dtype=np.int64)
    codes = {code: len(names) + number for number, code in enumerate(dict.fromkeys(f.code.value for _, f in shown))}
    names += codes
    return _Part(
        track=track,
        time_ns=timeline.starts_ns[at],
        type=np.full(len(at), int(EventType.INSTANT)),
        slice=_none(len(at)),
        name=np.array([codes[finding.code.value] for _, finding in shown], dtype=np.int64),
        category=np.full(len(at), _FINDING),
        step=timeline.numbers[at],
        value=_none(len(at)),
        notes=[_notes(finding) for _, finding in shown],
    )


def _of_returns(parts: Sequence[_Part], slices: _Slices, timeline: Timeline) -> list[_Part]:
    """Return an event where each wait for a copy returns, on the wait's own track; it stands before all of that time.

    A flow joins slices in the order in which they begin, and the host often waits before the copy has begun.
    """
    waits = np.unique(timeline.flows.wait[timeline.flows.wait != NONE])
    name = len(slices.names)
    slices.names.append(RETURNS)
    found = []
    for part in parts:
        its = part.slice[(part.type == EventType.END) & np.isin(part.slice, waits)]
        found.append(
            _Part(
                track=part.track,
                time_ns=slices.end_ns[its],
                type=np.full(len(its), int(EventType.INSTANT)),
                slice=its,
                name=np.full(len(its), name),
                category=slices.category[its],
                step=slices.step[its],
                value=_none(len(its)),
            )
        )
    return [part for part in found if len(part.slice)]


def _notes(finding: Finding) -> dict[str, Value]:
    cost = finding.cost_ns_per_step
    return {
        "text": finding.text,
        "advice": finding.advice,
        "certainty": finding.certainty.name.lower(),
        **({} if cost is None else {"cost_ns_per_step": cost}),
    }


def _counters(ledger: Ledger) -> list[tuple[str, Ns]]:
    """Return each step's times by name; what the capture does not show is left out."""
    idle = [(f"device idle: {CAUSE_NAMES.get(cause, 'host')}", ns) for cause, ns in sorted(ledger.causes.items())]
    columns = [
        ("device busy", ledger.device_busy_ns),
        ("device busy: copies alone", ledger.copy_alone_ns),
        *idle,
        ("host blocked", ledger.host_blocked_ns),
    ]
    return [(name, ns) for name, ns in columns if ns is not None]


def _of_counter(track: int, ns: Ns, timeline: Timeline) -> _Part:
    """Return a value at each step's start, and 0 at its end where the next one does not begin there."""
    starts, ends = timeline.starts_ns, timeline.ends_ns
    ending = np.append(starts[1:] != ends[:-1], True)
    time = np.concatenate((starts, ends[ending]))
    order = np.argsort(time, kind="stable")
    count = len(time)
    return _Part(
        track=track,
        time_ns=time[order],
        type=np.full(count, int(EventType.COUNTER)),
        slice=_none(count),
        name=_none(count),
        category=_none(count),
        step=_none(count),
        value=np.concatenate((ns, np.zeros(int(ending.sum()), dtype=np.int64)))[order],
    )


def _in_order(parts: Sequence[_Part], slices: _Slices, timeline: Timeline, shift: int) -> Events:
    """Return the events of all tracks by time; those of one track and time stay in its order."""
    time = _joined([part.time_ns for part in parts])
    order = np.argsort(time, kind="stable")
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    columns = {
        name: _joined([getattr(part, name) for part in parts])[order]
        for name in ("type", "slice", "name", "category", "step", "value")
    }
    its, step = columns.pop("slice"), columns.pop("step")
    is_begin = columns["type"] == EventType.BEGIN
    flows = flows_of(timeline, *(_event_of(its, columns["type"] == type_, len(slices.name)) for type_ in _MET))
    first = np.cumsum([0, *(len(part.time_ns) for part in parts)])
    return Events(
        time_ns=time[order] + shift,
        track=np.repeat([part.track for part in parts], [len(part.time_ns) for part in parts])[order],
        **columns,
        numbers={
            "step": step,
            "duration_ns": np.where(is_begin, (slices.end_ns - slices.start_ns)[its], NONE),
            "size_bytes": np.where(is_begin, slices.size_bytes[its], NONE),
        },
        notes={
            int(place[begin + number]): notes
            for part, begin in zip(parts, first.tolist(), strict=False)
            for number, notes in enumerate(part.notes)
        },
        flows=flows.through,
        last_flows=flows.last,
        names=slices.names,
        categories=_CATEGORIES,
    )


_MET = (EventType.BEGIN, EventType.INSTANT)
"""Where a flow meets a slice: a call and device work where they begin, a wait where it returns."""


def _event_of(its: IntColumn, chosen: IntColumn, count: int) -> IntColumn:
    """Return for each slice its event among the chosen, -1 for none."""
    event = _none(count)
    chosen = np.flatnonzero(chosen & (its != NONE))
    event[its[chosen]] = chosen
    return event


def _joined(parts: Sequence[IntColumn]) -> IntColumn:
    return np.concatenate(parts).astype(np.int64)


def _none(count: int) -> IntColumn:
    return np.full(count, NONE, dtype=np.int64)
