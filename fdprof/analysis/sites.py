"""Where in the host's code calls were made: the path of ranges around each, below the step's own."""

import numpy as np

from fdprof.analysis.intervals import Nesting, inside
from fdprof.analysis.steps import Steps
from fdprof.capture import NONE, Capture, RangeKind
from fdprof.model import IntColumn

_LEVELS = 6
BETWEEN = " > "
OUTSIDE = "(outside all ranges)"


def site_of_calls(capture: Capture, rows: IntColumn, steps: Steps) -> tuple[IntColumn, list[str]]:
    """Return for each of these calls of the step's thread the number of its site, and the sites.

    A site is up to six ranges from the outer to the inner, markers and operators; the step's own range is left out.
    """
    ranges = capture.ranges
    mine = np.flatnonzero((ranges["thread"] == steps.thread) & (ranges["kind"] != RangeKind.FRAME))
    # The step's range begins where its window does.
    is_step = np.isin(ranges["start_ns"][mine], steps.starts_ns) & (ranges["kind"][mine] == RangeKind.MARKER)
    if is_step.any():
        outer = inside(steps.starts_ns, steps.ends_ns, ranges["start_ns"][mine])
        is_step &= ranges["end_ns"][mine] > np.append(steps.starts_ns, 0)[outer]
        first = np.unique(ranges["start_ns"][mine][is_step], return_index=True)[1]
        is_step[np.setdiff1d(np.flatnonzero(is_step), np.flatnonzero(is_step)[first])] = False
        mine = mine[~is_step]
    nesting = Nesting(ranges["start_ns"][mine], ranges["end_ns"][mine])
    at = nesting.innermost(capture.api["start_ns"][rows])
    names = np.append(ranges["name"][mine], NONE)
    parents = np.append(nesting.parents(), np.full(len(mine) + 1 - len(nesting.parents()), NONE))
    path = np.full((len(rows), _LEVELS), NONE, dtype=np.int64)
    for level in range(_LEVELS):
        path[:, level] = names[at]
        at = parents[at]
        at = np.where(path[:, level] == NONE, NONE, at)
    distinct, number = np.unique(path, axis=0, return_inverse=True)
    sites = [
        BETWEEN.join(capture.names[name] for name in reversed(row) if name != NONE) or OUTSIDE
        for row in distinct.tolist()
    ]
    return number.reshape(-1).astype(np.int64), sites
