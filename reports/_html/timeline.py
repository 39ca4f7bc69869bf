"""What the page's script draws the timeline and the charts of one side from: whole numbers, ns, by column.

Times are from the first drawn step's start, starts as differences from one span to the next: that is half the size.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from fdprof.reports._html.view import Json

from fdprof import units
from fdprof.analysis.capture_result import CaptureResult
from fdprof.analysis.facts import Facts
from fdprof.analysis.results import RunResult
from fdprof.analysis.timeline import LaneKind, Timeline, steps_to_draw, timeline_of
from fdprof.capture import NONE
from fdprof.finding import Finding
from fdprof.model import IntColumn

_MOST_CHARACTERS = 1_500_000
"""Of the names of one timeline, which may be 600 characters each: then fewer steps are drawn."""


def side_data(
    label: str,
    facts: Facts,
    result: RunResult | CaptureResult,
    most_spans: int,
    first: Sequence[int],
) -> Json:
    """Return the data of a result with these facts: its steps' times, and the timeline of those that are drawn.

    `first` are the positions, as --steps counts, at which the steps of each block begin.
    """
    ledger = facts.ledger
    worst = [step.position for step in result.worst]
    return {
        "label": units.shown(label),
        "steps": {
            "number": ledger.step.tolist(),
            "block": _or_null(facts.steps.blocks),
            "window_ns": ledger.window_ns.tolist(),
            "idle_ns": _or_null(ledger.device_idle_ns),
            "blocked_ns": _or_null(ledger.host_blocked_ns),
        },
        "worst": worst,
        "shown_first": _shown_first(result.findings),
        "source": None if result.again is None else {"command": result.again, "first": list(first)},
        "timeline": timeline_data(facts, result.findings, worst, most_spans),
    }


def _or_null(column: IntColumn | None) -> list[int] | None:
    return None if column is None else column.tolist()


def times_only(label: str, windows_ns: IntColumn) -> Json:
    """Return the data of a side of which nothing but its step times is known."""
    steps = {"number": list(range(len(windows_ns))), "window_ns": windows_ns.tolist()}
    return {
        "label": units.shown(label),
        "steps": {"block": None, "idle_ns": None, "blocked_ns": None, **steps},
        "worst": [],
        "shown_first": None,
        "source": None,
        "timeline": None,
    }


def _shown_first(findings: Sequence[Finding]) -> int | None:
    """Return the position of the step that the page opens at: the one that shows the first finding most plainly."""
    return next((finding.steps[0] for finding in findings if finding.steps), None)


def timeline_data(facts: Facts, findings: Sequence[Finding], worst: Sequence[int], most_spans: int) -> Json | None:
    """Return the timeline of the steps that fit; None where there is nothing to draw."""
    for _ in range(8):
        timeline = timeline_of(facts, steps_to_draw(facts, findings, worst, most_spans))
        names = [units.shown(name) for name in timeline.names]
        if sum(map(len, names)) <= _MOST_CHARACTERS:
            break
        most_spans //= 4
    return _columns(timeline, names) if len(timeline.positions) else None


def _columns(timeline: Timeline, names: list[str]) -> Json:
    spans, flows = timeline.spans, timeline.flows
    origin = int(timeline.starts_ns[0])
    return {
        "positions": timeline.positions.tolist(),
        "starts_ns": (timeline.starts_ns - origin).tolist(),
        "ends_ns": (timeline.ends_ns - origin).tolist(),
        "lanes": [[lane.kind.value, units.shown(lane.label), lane.depth] for lane in timeline.lanes],
        "kinds": [kind.value for kind in LaneKind],
        "names": names,
        "spans": {
            "lane": spans.lane.tolist(),
            "start": np.diff(spans.start_ns, prepend=origin).tolist(),
            "length": (spans.end_ns - spans.start_ns).tolist(),
            "meaning": spans.meaning.tolist(),
            "name": spans.name.tolist(),
            "size_bytes": _sparse(spans.size_bytes),
            "issued_by": _sparse(spans.issued_by),
        },
        "flows": {name: getattr(flows, name).tolist() for name in ("issue", "copy", "wait")},
    }


def _sparse(column: npt.NDArray[np.integer]) -> Json:
    """Return a column that is mostly NONE as the rows that are not, as differences, and their values."""
    rows = np.flatnonzero(column != NONE)
    return {"rows": np.diff(rows, prepend=0).tolist(), "values": column[rows].tolist()}
