"""When a comparison has recorded enough blocks."""

import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from fdprof.cli.options import check_blocks
from fdprof.cli.policy import share_of
from fdprof.errors import UsageError
from fdprof.params import MAX_BLOCKS
from fdprof.units import percent

if TYPE_CHECKING:  # NumPy is behind them, and --help must not wait for NumPy
    from fdprof.comparison import Side
    from fdprof.model import Run

BLOCKS, SIMULATED_BLOCKS = 10, 6
"""By default.  Blocks of the simulator repeat exactly, so that the fewest that give a verdict will do."""


class Enough:
    """So many blocks a side, and with --precision more until the interval is so narrow or the time is up."""

    def __init__(self, blocks: int | None, precision: str | None, max_time: float) -> None:
        if blocks is not None:
            check_blocks(blocks)
        self._blocks = blocks
        self._precision = None if precision is None else share_of(precision, "--precision")
        if not (math.isfinite(max_time) and max_time > 0):
            raise UsageError(f"--max-time is {max_time:g}", "give seconds above 0")
        self._max_time_s, self._clock = max_time, time.monotonic

    def against(self, other: "Side | None") -> Callable[[Sequence["Run"]], bool]:
        """Return the question whether these sides are enough; `other`: the side that is not recorded, if any.

        UsageError where an interval against it can never be so narrow.
        """
        if other is not None and self._precision is not None:
            from fdprof.analysis.verdict import APART

            if self._precision <= APART:
                raise UsageError(
                    f"--precision {percent(self._precision)} cannot be met: sides that were recorded apart may "
                    f"differ by ±{percent(APART)} without a cause, whatever is added",
                    "compare two modes in one call, or give a larger --precision",
                )
        began = self._clock()
        known: list[list[Any]] = [[], []]

        def is_enough(sides: Sequence["Run"]) -> bool:
            fewest = min(len(side.blocks) for side in sides)
            wanted = self._blocks or (SIMULATED_BLOCKS if sides[0].is_simulated else BLOCKS)
            if fewest < wanted or len({len(side.blocks) for side in sides}) > 1:
                return False
            if self._precision is None or fewest >= MAX_BLOCKS or self._clock() - began >= self._max_time_s:
                return True

            from fdprof.analysis.run_times import counted_windows
            from fdprof.analysis.sides import warm_up_of_blocks
            from fdprof.analysis.verdict import half_width, side_units

            for windows, side in zip(known, sides, strict=False):
                windows.extend(counted_windows(block) for block in side.blocks[len(windows) :])
            if not all(len(block) for side in known[: len(sides)] for block in side):
                return True  # a loop that stopped early has wrong tokens: more blocks decide nothing
            settled = [[block[warm_up_of_blocks(side) :] for block in side] for side in known[: len(sides)]]
            width = half_width(settled[0], settled[1] if other is None else side_units(other), other is None)
            return width is not None and width <= self._precision

        return is_enough
