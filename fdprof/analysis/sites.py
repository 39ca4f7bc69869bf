"""Where in the host's code calls were made: the path of ranges around each, below the step's own."""

import re

import numpy as np

from fdprof.analysis.groups import rows_by
from fdprof.analysis.intervals import Nesting, inside
from fdprof.analysis.labels import OUTSIDE_ALL, labelled
from fdprof.analysis.steps import Steps
from fdprof.capture import NONE, Capture, Evidence, RangeKind
from fdprof.model import IntColumn

_MARKERS = ("transfer:", "fence:")  # of fdprof.markers
# A wait in a person's range of such a name is meant to be there: it is a fence, and not hidden.
_MEANT = re.compile(r"fence|sync|wait|transfer|copy|d2h|h2d|save_output|to_cpu", re.IGNORECASE)

_LEVELS = 6
BETWEEN = " > "
OUTSIDE = "(outside all ranges)"


def site_of_calls(capture: Capture, rows: IntColumn, steps: Steps) -> tuple[IntColumn, list[str]]:
    """Return for each of these calls of the step's thread the number of its site, and the sites.

    A site is up to six ranges from the outer to the inner, markers and operators; the step's own range is left out.
    """
    ranges = capture.ranges
    mine = np.flatnonzero((ranges["thread"] == steps.thread) & (ranges["kind"] != RangeKind.FRAME))
    # The step's own range begins where its window does; of ranges that begin together the longest comes first.
    starts = ranges["start_ns"][mine]
    longest = np.unique(starts, return_index=True)[1]
    own = longest[np.isin(starts[longest], steps.starts_ns) & (ranges["kind"][mine[longest]] == RangeKind.MARKER)]
    mine = np.delete(mine, own)
    nesting = Nesting(ranges["start_ns"][mine], ranges["end_ns"][mine])
    at = nesting.innermost(capture.api["start_ns"][rows])
    label, labels = labelled(capture, ranges["name"][mine])
    names = np.append(label, OUTSIDE_ALL)
    parents = np.append(nesting.parents(), np.full(len(mine) + 1 - len(nesting.parents()), NONE))
    # What began before the call's step holds the step, and is no place in it; unless the step's start is a guess.
    call_start = capture.api["start_ns"][rows]
    window = inside(steps.starts_ns, steps.ends_ns, call_start)
    begin = np.append(steps.starts_ns, np.iinfo(np.int64).min)[window if steps.evidence is Evidence.PROVED else NONE]
    range_start = np.append(ranges["start_ns"][mine], np.iinfo(np.int64).min)
    path = np.full((len(rows), _LEVELS), OUTSIDE_ALL, dtype=np.int64)
    for level in range(_LEVELS):
        at = np.where(range_start[at] < begin, NONE, at)
        path[:, level] = names[at]
        at = np.where(at == NONE, NONE, parents[at])
    found = rows_by(*path.T)
    number = np.zeros(len(rows), dtype=np.int64)
    sites = []
    for site, (names_, its) in enumerate(found.items()):
        number[its] = site
        sites.append(BETWEEN.join(labels[name] for name in reversed(names_) if name != OUTSIDE_ALL) or OUTSIDE)
    return number, sites


def is_operator(name: str) -> bool:
    """Return whether a range or a site is of an operator: its name has a namespace, as in aten::item.

    A marker may carry an operator's name, as in transfer:aten::copy, and is a person's.
    """
    return "::" in name and not name.startswith(_MARKERS)


def is_hidden(site: str) -> bool:
    """Return whether a wait there is hidden: in an operator or a person's range, none of which is meant for waits."""
    ranges = [] if site == OUTSIDE else site.split(BETWEEN)
    return bool(ranges) and not any(not is_operator(name) and _MEANT.search(name) for name in ranges)


def placed(site: str) -> str:
    """Return a site for a sentence: 'in forward', or '(outside all ranges)'."""
    return site if site == OUTSIDE else f"in {site}"
