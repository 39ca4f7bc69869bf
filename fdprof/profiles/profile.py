"""A device profile: what one card and one framework cost, as measured, for the simulator.

Two layers.  `card`: what CUDA and the hardware cost a C++ program.  `host`: what each call of the loop costs the host
thread in the framework (Paddle's Python), where the launch and copy calls include the driver's part.
"""

import dataclasses
import json
from dataclasses import dataclass
from importlib import resources
from itertools import pairwise
from typing import Any

from fdprof.errors import InputError, UsageError

_PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class CardCosts:
    """Device-side costs in ns, and rates."""

    kernel_start_ns: int  # idle device: start of the launch call to start of the kernel
    kernel_gap_ns: int  # between queued kernels
    kernel_overhead_ns: int  # what a spin kernel runs beyond the time it was asked for
    prepare_ns: int  # the pre-processing kernel
    update_ns: int  # the update kernel
    graph_start_ns: int  # idle device: start of a graph's launch call to start of its first kernel
    graph_node_gap_ns: int  # between the kernels of a graph
    stream_wait_ns: int  # end of an event to start of the work that waits for it in another stream
    kernel_to_copy_ns: int  # kernel end to copy start
    copy_to_copy_ns: int
    copy_to_kernel_ns: int
    copy_start_ns: int  # idle device: return of the copy call to start of the copy
    copy_floor_ns: int  # a copy of few bytes
    h2d_floor_ns: int  # the same, to the device
    copy_bytes_per_us: int  # either way
    publish_ns: int  # what a kernel runs longer for each group that it writes to mapped memory by itself
    publish_visible_ns: int  # end of that kernel to the host's sight of the sequence number
    wake_ns: int  # end of the awaited work to the return of the wait, spinning
    wake_poll_ns: int  # ... querying the event
    wake_yield_ns: int  # ... and giving the core to others between two queries
    wake_blocking: tuple[tuple[int, int, int], ...]  # ... sleeping: (ns waited, ns to wake, CPU share in permille)
    staging_floor_ns: int  # pageable memory, beyond the copy to pinned memory
    staging_bytes_per_us: int
    launch_queue_depth: int  # launches that can be pending before a launch call blocks

    def copy_ns(self, size_bytes: int) -> int:
        """Return how long the copy engine works on a copy to the host, or on one within the device."""
        return max(self.copy_floor_ns, size_bytes * 1000 // self.copy_bytes_per_us)

    def h2d_ns(self, size_bytes: int) -> int:
        """Return how long the copy engine works on a copy to the device."""
        return max(self.h2d_floor_ns, size_bytes * 1000 // self.copy_bytes_per_us)

    def staging_ns(self, size_bytes: int) -> int:
        """Return what a copy to pageable memory takes beyond one to pinned memory."""
        return self.staging_floor_ns + size_bytes * 1000 // self.staging_bytes_per_us

    def blocking_wake(self, waited_ns: int) -> tuple[int, int]:
        """Return how long a thread that slept so long takes to wake, and its CPU share of the whole in permille.

        Straight lines between the measured points, the first and the last point outside them.
        """
        points = self.wake_blocking
        if waited_ns <= points[0][0]:
            return points[0][1:]
        for (from_ns, *low), (to_ns, *high) in pairwise(points):
            if waited_ns <= to_ns:
                wake_ns, cpu = (
                    a + (b - a) * (waited_ns - from_ns) // (to_ns - from_ns) for a, b in zip(low, high, strict=True)
                )
                return wake_ns, cpu
        return points[-1][1:]


@dataclass(frozen=True, slots=True)
class HostCosts:
    """Host time of each call in ns, in the framework, apart from blocking."""

    launch_call_ns: int  # a launch call, apart from its kernels
    kernel_launch_ns: int  # each kernel in it
    graph_launch_ns: int  # the launch call of a graph, whatever is in it
    copy_call_ns: int  # non-blocking copy to pinned memory
    upload_call_ns: int  # non-blocking copy from pinned memory
    fetch_before_ns: int  # blocking copy to pageable memory: until the copy is queued
    fetch_after_ns: int  # ... and after it has ended
    store_before_ns: int  # blocking copy to the device: until the copy is queued
    store_after_ns: int  # ... and after it has ended
    allocate_pinned_ns: int  # new page-locked memory from the framework's pool
    allocate_bytes_per_us: int  # ... and filling it
    release_ns: int  # giving it back
    record_ns: int  # also what telling a stream to wait takes
    wait_call_ns: int  # a wait for what is done already
    poll_call_ns: int  # a look at a sequence number that is there already
    read_flag_ns: int
    read_array_ns: int  # of up to a page
    write_flag_ns: int
    write_array_ns: int  # of up to a page
    read_bytes_per_us: int  # host memory beyond the first page, read or written
    work_call_ns: int  # host work beyond the time it was asked for
    cold_ns: int  # the first call of its kind after other work, beyond what the next one takes
    between_calls_ns: int  # the loop's own Python around each call to the device

    def allocate_ns(self, size_bytes: int) -> int:
        """Return how long the host takes for a new page-locked buffer."""
        return self.allocate_pinned_ns + size_bytes * 1000 // self.allocate_bytes_per_us

    def read_ns(self, size_bytes: int) -> int:
        """Return what reading an array of so many bytes costs."""
        return self.read_array_ns + self._beyond_page_ns(size_bytes)

    def write_ns(self, size_bytes: int) -> int:
        """Return what writing an array of so many bytes costs."""
        return self.write_array_ns + self._beyond_page_ns(size_bytes)

    def _beyond_page_ns(self, size_bytes: int) -> int:
        return max(0, size_bytes - _PAGE_BYTES) * 1000 // self.read_bytes_per_us


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
    # JSON has no tuples, and a frozen record should hold nothing that can change.
    return kind(
        **{key: tuple(map(tuple, value)) if isinstance(value, list) else value for key, value in entries.items()}
    )
