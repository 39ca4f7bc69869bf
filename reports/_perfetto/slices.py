"""Lays spans out as slices of Perfetto's tracks: those of a track nest, and what does not gets another track."""

import numpy as np

from fdprof.model import IntColumn


def nested(starts: IntColumn, ends: IntColumn) -> list[IntColumn]:
    """Return for each track its begins and ends in order: span * 2 for the begin, span * 2 + 1 for the end.

    Spans come by start, the longer first.  One that ends where the next begins ends first.
    """
    walks: list[list[int]] = []
    open_spans: list[list[tuple[int, int]]] = []  # end and span, the innermost last, by track
    for span, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        for walk, its in zip(walks, open_spans, strict=True):
            _close(walk, its, start)
            if not its or end <= its[-1][0]:
                break
        else:
            walk, its = [], []
            walks.append(walk)
            open_spans.append(its)
        walk.append(span * 2)
        its.append((end, span))
    for walk, its in zip(walks, open_spans, strict=True):
        _close(walk, its, None)
    return [np.array(walk, dtype=np.int64) for walk in walks]


def _close(walk: list[int], open_spans: list[tuple[int, int]], at: int | None) -> None:
    """Add the ends of the spans that have ended at this time, the inner before the outer; None: of all."""
    while open_spans and (at is None or open_spans[-1][0] <= at):
        walk.append(open_spans.pop()[1] * 2 + 1)
