"""What a scenario must offer, and the loop that it is given.

A scenario reads like an engine's decode step.  It knows neither how a transfer is made nor whether a GPU exists.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, ClassVar, Protocol

from fdprof.model import Group
from fdprof.modes.protocol import Values
from fdprof.params import LoopParams
from fdprof.tokens import StreamSpec


class Loop(Protocol):
    """What a step works with."""

    params: Any

    def range(self, name: str, detail: str = "") -> AbstractContextManager[object]:
        """Name a stretch of the step's thread: an NVTX range and a row of the recording."""

    def send(self, group: Group) -> None:
        """Send this step's values of a group to the device, as the mode does it."""

    def prepare(self) -> None:
        """Launch the kernel of the pre-processing, which makes what is known before the forward pass."""

    def forward(self) -> None:
        """Launch the step's device work."""

    def sample_and_update(self, launch_tokens: int = -1) -> None:
        """Launch the kernel that makes the next tokens, stops and flags, for so many rows (-1: all)."""

    def transfer(self, group: Group) -> None:
        """Start the group's transfers of this step, as the mode does it."""

    def read(self, group: Group) -> Values | None:
        """Return the newest values the mode can give, behind its fence, or None while there are none yet."""

    def flush(self, group: Group) -> Values | None:
        """Return the values of the step before, if the mode has kept them back; for a loop that ends."""

    def host_work(self, duration_ns: int) -> None:
        """Keep the host busy: scheduling, building messages."""

    def save(self, values: Values) -> None:
        """Hand the values on, as save_output does; they are checked against the reference after the loop."""

    def stop(self) -> None:
        """End the loop after this step."""


class Scenario:
    """One decode loop.  `SCENARIO` in each file of this folder is an object of a class derived from this one."""

    source: ClassVar[str]
    params_type: ClassVar[type[LoopParams]] = LoopParams
    has_prepare: ClassVar[bool] = False  # a step launches the kernel of the pre-processing

    def groups(self, params: Any) -> tuple[Group, ...]:
        """Return the transfers of a step, grouped as the engine groups them."""
        raise NotImplementedError(f"{type(self).__name__} has no groups()")

    def stream(self, params: Any, last_step: int) -> StreamSpec:
        """Return what shapes the token stream: here, rows that make one token a step and never pause."""
        return StreamSpec(
            seed=params.seed, sequences=params.sequences, mean_length=params.mean_length, last_step=last_step
        )

    def step(self, loop: Loop, k: int) -> None:
        """Do step k."""
        raise NotImplementedError(f"{type(self).__name__} has no step()")
