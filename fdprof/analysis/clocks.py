"""What NVML said of the GPU around the blocks of a comparison: whether clocks moved, and what held them down."""

from collections import Counter
from collections.abc import Sequence

from fdprof.comparison import Side
from fdprof.units import counted

_MOVED = 0.01
"""The share of the SM clock from which on a difference between blocks is told: it could be the whole effect."""

_NO_THROTTLE = frozenset({"gpu idle", "applications clocks setting", "display clocks setting"})
"""Reasons that are no throttling: nothing to do, or clocks as somebody set them."""


def clock_notes(sides: Sequence[Side]) -> list[str]:
    """Return what is to be said of the clocks; nothing where they stood still or were not read."""
    found = []
    clocks = [clock for side in sides for clock in after_blocks_mhz(side)]
    if clocks and max(clocks) - min(clocks) > _MOVED * max(clocks):
        ranges = ", ".join(f"{side.label} {_range(after_blocks_mhz(side))}" for side in sides if after_blocks_mhz(side))
        found.append(f"the SM clock moved between blocks: {ranges} MHz")
    for side in sides:
        held = throttled(side)
        if held:
            reasons = ", ".join(f"{reason} after {counted(blocks, 'block')}" for reason, blocks in held.items())
            found.append(f"the GPU held its clocks down in {side.label}: {reasons}")
    return found


def after_blocks_mhz(side: Side) -> list[int]:
    """Return the SM clock at the end of each block in which it could be read."""
    return [states[-1].sm_clock_mhz for states in side.gpu if states and states[-1].sm_clock_mhz is not None]


def throttled(side: Side) -> dict[str, int]:
    """Return after how many blocks the GPU gave each reason for lower clocks."""
    reasons = Counter(
        reason for states in side.gpu if states for reason in states[-1].throttle or () if reason not in _NO_THROTTLE
    )
    return dict(sorted(reasons.items()))


def _range(values: Sequence[int]) -> str:
    return f"{min(values):,} to {max(values):,}"
