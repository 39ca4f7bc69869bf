"""What a scenario must offer, the parameters that all share, and the loop that it is given.

A scenario reads like an engine's decode step.  It knows neither how a transfer is made nor whether a GPU exists.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from fdprof.errors import UsageError
from fdprof.model import Group
from fdprof.modes.protocol import Values
from fdprof.units import NS_PER_US


def param(default: float, help_text: str, low: float, high: float) -> Any:
    """Return a dataclass field with the help text and the inclusive bounds that the command line and checks use."""
    return field(default=default, metadata={"help": help_text, "low": low, "high": high})


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopParams:
    """The parameters of a decode loop, in the units of their names."""

    sequences: int = param(64, "Rows of the batch: running sequences.", 1, 65_536)
    device_us: float = param(1000.0, "Device work of a step, µs, queued back to back.", 1, 10_000_000)
    kernels: int = param(20, "Kernels that the device work of a step is launched as.", 1, 1000)
    schedule_us: float = param(120.0, "Host work before the read of the outputs (scheduling), µs.", 0, 10_000_000)
    save_output_us: float = param(80.0, "Host work after the read of the outputs (save_output), µs.", 0, 10_000_000)
    mean_length: int = param(64, "Mean output length of a sequence, tokens.", 1, 1_000_000)
    seed: int = param(0, "Seed of tokens and output lengths.", 0, 2**63 - 1)

    def __post_init__(self) -> None:
        for entry in dataclasses.fields(self):
            check_bounds(entry.name, getattr(self, entry.name), entry.metadata)

    @property
    def device_ns(self) -> int:
        return round(self.device_us * NS_PER_US)

    @property
    def schedule_ns(self) -> int:
        return round(self.schedule_us * NS_PER_US)

    @property
    def save_output_ns(self) -> int:
        return round(self.save_output_us * NS_PER_US)

    @property
    def host_work_ns(self) -> int:
        return self.schedule_ns + self.save_output_ns


def check_bounds(name: str, value: float, metadata: Mapping[str, Any]) -> None:
    """Raise UsageError, naming the option and the bounds, unless low <= value <= high."""
    low, high = metadata["low"], metadata["high"]
    if math.isfinite(value) and low <= value <= high:
        return
    option = "--" + name.replace("_", "-")
    raise UsageError(f"{option} is {value:g}, expected {low:,} to {high:,}", f"choose {option} in that range")


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
