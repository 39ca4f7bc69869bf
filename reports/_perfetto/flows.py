"""The arrows of a trace: from a copy's call to the copy to the wait for it, and from a launch to its first work."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fdprof.analysis.timeline import Timeline
from fdprof.capture import NONE
from fdprof.model import IntColumn


@dataclass(frozen=True, slots=True)
class Flows:
    """The flows that go through each event, and those that end with it."""

    through: Mapping[int, Sequence[int]]
    last: Mapping[int, Sequence[int]]


def flows_of(timeline: Timeline, begins: IntColumn, returns: IntColumn) -> Flows:
    """Return the flows between these events: of each span the one that begins it, and the one of its return.

    Events count in the order of time, in which readers join them.  What is out of it by the clocks' error is left out.
    """
    flows = timeline.flows
    issue, copy, wait = (
        np.where(span == NONE, NONE, events[span])
        for span, events in ((flows.issue, begins), (flows.copy, begins), (flows.wait, returns))
    )
    copy = np.where((copy > issue) & ((wait == NONE) | (copy < wait)), copy, NONE)
    chains = np.stack((issue, copy, wait), axis=1)
    launched, launch = _launches(timeline)
    events = np.stack((begins[launch], begins[launched], _none(len(launch))), axis=1)
    chains = np.concatenate((chains, events[events[:, 0] < events[:, 1]]))
    through: dict[int, list[int]] = defaultdict(list)
    last: dict[int, list[int]] = defaultdict(list)
    number = 0
    for chain in chains.tolist():
        *before, end = met = [event for event in chain if event != NONE] or [NONE]
        if len(met) < 2:
            continue
        number += 1
        for event in before:
            through[event].append(number)
        last[end].append(number)
    return Flows(through, last)


def _launches(timeline: Timeline) -> tuple[IntColumn, IntColumn]:
    """Return the first span that each call gave the device, and the call's; copies that have a flow are left out."""
    spans = timeline.spans
    launched = np.flatnonzero(spans.issued_by != NONE)
    launched = launched[~np.isin(launched, timeline.flows.copy)]
    launch, first = np.unique(spans.issued_by[launched], return_index=True)
    return launched[first], launch


def _none(count: int) -> IntColumn:
    return np.full(count, NONE, dtype=np.int64)
