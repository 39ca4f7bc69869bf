"""What a scenario must offer, and the loop that it is given.

A scenario reads like an engine's decode step.  It knows neither how a transfer is made nor whether a GPU exists.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

from fdprof.model import Group
from fdprof.modes.protocol import Values
from fdprof.params import LoopParams


class Loop(Protocol):
    """What a step works with."""

    params: Any

    def range(self, name: str, detail: str = "") -> AbstractContextManager[object]:
        """Name a stretch of the step's thread: an NVTX range and a row of the recording."""

    def forward(self) -> None:
        """Launch the step's device work."""

    def sample_and_update(self) -> None:
        """Launch the kernel that makes the next tokens, stops and flags."""

    def transfer(self, group: Group) -> None:
        """Start the group's transfers of this step, as the mode does it."""

    def read(self, group: Group) -> Values | None:
        """Return the newest values the mode can give, behind its fence, or None while there are none yet."""

    def host_work(self, duration_ns: int) -> None:
        """Keep the host busy: scheduling, building messages."""

    def save(self, values: Values) -> None:
        """Hand the values on, as save_output does; they are checked against the reference after the loop."""

    def stop(self) -> None:
        """End the loop after this step."""


class Scenario(Protocol):
    """One decode loop.  `SCENARIO` in each file of this folder is an object with these members."""

    source: str
    params_type: type[LoopParams]

    def groups(self, params: Any) -> tuple[Group, ...]:
        """Return the transfers of a step, grouped as the engine groups them."""

    def step(self, loop: Loop, k: int) -> None:
        """Do step k."""
