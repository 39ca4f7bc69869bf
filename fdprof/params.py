"""The parameters of a loop and of how long it runs: defaults, help and bounds, once for library and command line."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fdprof.errors import UsageError
from fdprof.times import parse_times
from fdprof.units import NS_PER_US

MAX_BLOCKS = 1000
"""Of one run: more would be resampled for minutes."""


def param(default: float, help_text: str, low: float, high: float) -> Any:
    """Return a dataclass field with the help text and the inclusive bounds that the command line and checks use."""
    return field(default=default, metadata={"help": help_text, "low": low, "high": high})


def choice(default: str, help_text: str, choices: tuple[str, ...]) -> Any:
    """Return a dataclass field that takes one of some words."""
    return field(default=default, metadata={"help": f"{help_text} One of: {', '.join(choices)}.", "choices": choices})


def times(help_text: str) -> Any:
    """Return a dataclass field that says how times are distributed (fdprof.times)."""
    return field(default="fixed", metadata={"help": help_text, "parse": parse_times})


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopParams:
    """The parameters of a decode loop, in the units of their names."""

    sequences: int = param(64, "Rows of the batch: running sequences.", 1, 65_536)
    device_us: float = param(1000.0, "Device work of a step, µs, queued back to back.", 1, 10_000_000)
    kernels: int = param(20, "Kernels that the device work of a step is launched as.", 1, 1000)
    launch: str = choice("kernels", "How these are launched: one by one, or as one CUDA graph.", ("kernels", "graph"))
    schedule_us: float = param(120.0, "Host work before the read of the outputs (scheduling), µs.", 0, 10_000_000)
    save_output_us: float = param(80.0, "Host work after the read of the outputs (save_output), µs.", 0, 10_000_000)
    device_times: str = times("How a step's device work varies: fixed, normal:CV, lognormal:CV or a file of µs.")
    host_times: str = times("How a step's host work varies: fixed, normal:CV, lognormal:CV or a file of µs.")
    wait: str = choice("spin", "How the host waits at a fence.", ("spin", "blocking", "poll", "yield"))
    mean_length: int = param(64, "Mean output length of a sequence, tokens.", 1, 1_000_000)
    seed: int = param(0, "Seed of tokens, output lengths and varying times.", 0, 2**63 - 1)

    def __post_init__(self) -> None:
        check_fields(self)

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


def check_fields(record: Any) -> None:
    """Raise UsageError, naming the option, for the first field of a parameter record that does not fit."""
    for entry in dataclasses.fields(record):
        value = getattr(record, entry.name)
        if "low" in entry.metadata:
            check_bounds(entry.name, value, entry.metadata)
        elif "choices" in entry.metadata:
            choices = entry.metadata["choices"]
            if value not in choices:
                raise UsageError(f"{_option(entry.name)} is {value!r}", f"choose one of: {', '.join(choices)}")
        else:
            entry.metadata["parse"](value, _option(entry.name))


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def check_bounds(name: str, value: float, metadata: Mapping[str, Any]) -> None:
    """Raise UsageError, naming the option and the bounds, unless low <= value <= high."""
    low, high = metadata["low"], metadata["high"]
    if math.isfinite(value) and low <= value <= high:
        return
    shown = f"{value:,}" if isinstance(value, int) else repr(value)
    raise UsageError(
        f"{_option(name)} is {shown}, expected {low:,} to {high:,}", f"choose {_option(name)} in that range"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How long to run, and how long to wait."""

    steps: int = param(200, "Counted steps of a block.", 1, 100_000)
    warmup: int = param(20, "Steps before them that are recorded but not counted.", 0, 10_000)
    timeout: float = param(30.0, "Longest wait for the device, s.", 0.001, 3600)

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def last_step(self) -> int:
        return self.warmup + self.steps - 1
