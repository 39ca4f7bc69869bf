"""Ratios with their intervals as bars on one scale, which always holds 1: candidate as long as baseline."""

from collections.abc import Sequence
from dataclasses import dataclass

from fdprof.reports._html.bars import stretch
from fdprof.reports._html.view import BarRow, Ratios

from fdprof import units
from fdprof.comparison import Estimate

_ONE = 1.0
_MARK = 0.004
"""The width of a ratio's own mark, as a share of the scale's."""


@dataclass(frozen=True, slots=True)
class Named:
    """A ratio and what it is of."""

    name: str
    estimate: Estimate

    @property
    def ends(self) -> tuple[float, float]:
        return self.estimate.interval or (self.estimate.value, self.estimate.value)


def ratios_of(given: Sequence[Named], caption: str, same_within: float | None = None) -> Ratios | None:
    """Return the bars of these ratios; `same_within` shades what counts as the same."""
    if not given:
        return None
    same = (_ONE, _ONE) if same_within is None else (1 / (1 + same_within), 1 + same_within)
    low = min(same[0], *(each.ends[0] for each in given))
    high = max(same[1], *(each.ends[1] for each in given))
    room = max(0.06 * (high - low), 0.001)
    first, span = low - room, high - low + 2 * room

    def at(ratio: float) -> float:
        return (ratio - first) / span

    rows = []
    for each in given:
        start, end = each.ends
        pieces = (
            stretch("same", at(same[0]), at(same[1]) - at(same[0])),
            stretch("interval", at(start), at(end) - at(start)),
            stretch("bare", at(_ONE) - _MARK / 4, _MARK / 2),
            stretch("whole-b", at(each.estimate.value) - _MARK / 2, _MARK),
        )
        interval = (
            units.NOT_OBSERVED if each.estimate.interval is None else f"{units.ratio(start)} to {units.ratio(end)}"
        )
        rows.append(BarRow("", (units.shown(each.name), units.ratio(each.estimate.value), interval), pieces))
    scale = f"bars from {units.ratio(first)} to {units.ratio(first + span)}; the thin line is at 1"
    return Ratios(caption, ("", "ratio", "95 % interval"), tuple(rows), scale)
