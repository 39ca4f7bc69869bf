"""A seeded schedule of the worst that the memory model allows: copies that run late and land in two parts, and a host
thread that is put off after a wait.

Code that reads a buffer behind the right fence, and rewrites it only behind one, gets the same values under every
seed; code that merely had the timing on its side does not.
"""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fdprof.backends._des import Op

Pair = tuple[npt.NDArray[Any], npt.NDArray[Any]]  # source, target


class Adversary:
    """Delays for the copies of every loop that is opened with it.  A loop's delays follow from the seed alone."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def schedule(self, step_ns: int) -> "Schedule":
        """Return the delays of one loop whose steps have about `step_ns` of device work."""
        return Schedule(random.Random(self.seed), step_ns)


class Schedule:
    """The delays of one loop, drawn in the order in which its copies are queued."""

    def __init__(self, draws: random.Random, step_ns: int) -> None:
        self._draws = draws
        self._step_ns = step_ns

    def delay_ns(self) -> int:
        """Draw nothing, up to a step, up to four, or twenty."""
        steps = self._draws.choice((0, 1, 4, 20))
        if steps == 20:
            return 20 * self._step_ns
        return self._draws.randint(0, steps * self._step_ns)

    def disturb_copy(self, op: Op, source: npt.NDArray[Any], target: npt.NDArray[Any]) -> None:
        """Let the copy take longer, and move its first bytes at some time before its end, the others at its end."""
        op.duration_ns += self.delay_ns()
        first, rest = self.torn([(source, target)])
        op.early = (self._draws.randint(0, op.duration_ns), first.move)
        op.effect = lambda _: rest.move()

    def between_ns(self, start_ns: int, end_ns: int) -> int:
        """Draw a time."""
        return self._draws.randint(start_ns, end_ns)

    def torn(self, pairs: Sequence[Pair]) -> "tuple[Part, Part]":
        """Return two moves that together copy each source to its target, torn at a drawn byte."""
        first, rest = Part(), Part()
        for source, target in pairs:
            from_bytes, to_bytes = _bytes_of(source), _bytes_of(target)
            cut = self._draws.randint(0, len(from_bytes))
            first.pieces.append((from_bytes[:cut], to_bytes[:cut]))
            rest.pieces.append((from_bytes[cut:], to_bytes[cut:]))
        return first, rest


class Part:
    """Some bytes of a copy."""

    def __init__(self) -> None:
        self.pieces: list[Pair] = []

    def move(self) -> None:
        """Copy what the source holds now."""
        for source, target in self.pieces:
            target[...] = source


def _bytes_of(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)
