"""A device profile: what one card and one framework cost, as measured, for the simulator.

Two layers.  `card`: what CUDA and the hardware cost a C++ program.  `host`: what each call of the loop costs the host
thread in the framework (Paddle's Python), where the launch and copy calls include the driver's part.
"""

import dataclasses
import json
from dataclasses import dataclass
from importlib import resources
from typing import Any

from fdprof.errors import InputError, UsageError


@dataclass(frozen=True, slots=True)
class CardCosts:
    """Device-side costs in ns, and rates."""

    kernel_start_ns: int  # idle device: start of the launch call to start of the kernel
    kernel_gap_ns: int  # between queued kernels
    kernel_overhead_ns: int  # what a spin kernel runs beyond the time it was asked for
    update_ns: int  # the update kernel
    kernel_to_copy_ns: int  # kernel end to copy start
    copy_to_copy_ns: int
    copy_to_kernel_ns: int
    copy_start_ns: int  # idle device: return of the copy call to start of the copy
    copy_floor_ns: int  # a copy of few bytes
    copy_bytes_per_us: int
    wake_ns: int  # end of the awaited work to the return of the wait, spinning
    staging_floor_ns: int  # pageable memory, beyond the copy to pinned memory
    staging_bytes_per_us: int
    launch_queue_depth: int  # launches that can be pending before a launch call blocks

    def copy_ns(self, size_bytes: int) -> int:
        """Return how long the copy engine works on a copy."""
        return max(self.copy_floor_ns, size_bytes * 1000 // self.copy_bytes_per_us)

    def staging_ns(self, size_bytes: int) -> int:
        """Return what a copy to pageable memory takes beyond one to pinned memory."""
        return self.staging_floor_ns + size_bytes * 1000 // self.staging_bytes_per_us


@dataclass(frozen=True, slots=True)
class HostCosts:
    """Host time of each call in ns, in the framework, apart from blocking."""

    launch_call_ns: int  # a launch call, apart from its kernels
    kernel_launch_ns: int  # each kernel in it
    copy_call_ns: int  # non-blocking copy to pinned memory
    fetch_before_ns: int  # blocking copy to pageable memory: until the copy is queued
    fetch_after_ns: int  # ... and after it has ended
    record_ns: int
    wait_call_ns: int  # a wait for what is done already
    read_flag_ns: int
    read_array_ns: int
    work_call_ns: int  # host work beyond the time it was asked for
    between_calls_ns: int  # the loop's own Python around each call to the device


@dataclass(frozen=True, slots=True)
class DeviceProfile:
    """Both layers, with where they were measured."""

    name: str
    gpu: str
    framework: str
    source: str
    card: CardCosts
    host: HostCosts

    def gap_ns(self, before: str, after: str) -> int:
        """Return the device's idle time between two operations queued in one stream."""
        card = self.card
        gaps = {
            ("kernel", "kernel"): card.kernel_gap_ns,
            ("kernel", "copy"): card.kernel_to_copy_ns,
            ("copy", "copy"): card.copy_to_copy_ns,
            ("copy", "kernel"): card.copy_to_kernel_ns,
        }
        return gaps.get((before, after), 0)


def load_profile(name: str) -> DeviceProfile:
    """Return a shipped profile; UsageError when there is none of that name, InputError when the file is malformed."""
    folder = resources.files("fdprof.profiles")
    known = sorted(entry.name.removesuffix(".json") for entry in folder.iterdir() if entry.name.endswith(".json"))
    if name not in known:
        raise UsageError(f"no device profile is named {name!r}", f"choose one of: {', '.join(known)}")
    document = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return DeviceProfile(
        name=name,
        gpu=document["gpu"],
        framework=document["framework"],
        source=document["source"],
        card=_costs(CardCosts, document["card"], name),
        host=_costs(HostCosts, document["host"], name),
    )


def _costs(kind: type[Any], entries: dict[str, Any], profile: str) -> Any:
    expected = {entry.name for entry in dataclasses.fields(kind)}
    if set(entries) != expected:
        differing = ", ".join(sorted(set(entries) ^ expected))
        raise InputError(
            f"device profile {profile}: {kind.__name__} differs in {differing}", "correct the profile file"
        )
    return kind(**entries)
