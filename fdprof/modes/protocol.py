"""What a transfer mode must offer, and the two pieces most modes share.

A mode owns buffers, ring, events and the order of copy, record, wait and read.  It speaks only the backend protocol
and measures nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from fdprof.backends.protocol import DeviceLoop, Event, HostBuffer
from fdprof.model import Group, Memory


@dataclass(frozen=True, slots=True)
class Values:
    """What a read handed out: the values of one step by tensor name."""

    step: int
    tensors: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.tensors[name]


class Mode(Protocol):
    """One way to carry out the transfers.  `MODE` in each file of this folder is a class with these members."""

    memory: ClassVar[Memory]
    fence: ClassVar[str]  # where the host waits, in words
    lag: ClassVar[int]  # steps between a transfer's issue and the read of its value
    source: ClassVar[str]

    def __init__(self, device: DeviceLoop, groups: Sequence[Group]) -> None:
        """Allocate buffers and events; outside the timed loop."""

    def transfer(self, group: Group, step: int) -> None:
        """Start the group's transfers of this step."""

    def read(self, group: Group, step: int) -> Values | None:
        """Return the values of step - lag once they are on the host, or None while there are none yet."""


class Slot:
    """Pinned buffers for one group and the event that fences them."""

    def __init__(self, device: DeviceLoop, group: Group) -> None:
        self._device = device
        self._copies = [(tensor, device.host_buffer(tensor, Memory.PINNED)) for tensor in group.tensors]
        self.event: Event = device.event()

    def copy(self) -> None:
        """Queue all copies of the group."""
        for tensor, buffer in self._copies:
            self._device.copy(tensor, buffer)

    def values(self, step: int) -> Values:
        """Return what the buffers hold now as the values of `step`."""
        return read_buffers(self._device, [buffer for _, buffer in self._copies], step)


def read_buffers(device: DeviceLoop, buffers: Sequence[HostBuffer], step: int) -> Values:
    """Return what the buffers hold now as the values of `step`."""
    return Values(step, {buffer.spec.name: device.read(buffer) for buffer in buffers})
