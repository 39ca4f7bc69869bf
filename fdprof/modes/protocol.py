"""What a transfer mode must offer, and the pieces most modes share.

A mode owns buffers, ring, events and the order of copy, record, wait and read.  It speaks only the backend protocol
and measures nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy.typing as npt

from fdprof.backends.protocol import DeviceLoop, Event, HostBuffer, Stream
from fdprof.model import Direction, Group, Memory, Producer

Arrays = Sequence[npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Values:
    """What a read handed out: the values of one step by tensor name."""

    step: int
    tensors: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        try:
            return self.tensors[name]
        except KeyError:
            raise KeyError(f"no tensor {name!r} in this group; it has {', '.join(self.tensors)}") from None


class Mode:
    """One way to carry out the transfers.  `MODE` in each file of this folder is a class derived from this one."""

    memory: ClassVar[Memory]
    fence: ClassVar[str]  # where the host waits, in words
    lag: ClassVar[int]  # steps between a transfer's issue and the read of its value
    source: ClassVar[str]
    has_events: ClassVar[bool] = True  # it waits in the style that --wait asks for
    is_control: ClassVar[bool] = False  # wrong by construction: a negative control that must be caught

    def __init__(self, device: DeviceLoop, groups: Sequence[Group]) -> None:
        """Allocate buffers and events; outside the timed loop."""

    def before(self, producer: Producer, step: int) -> None:
        """Do what must be done before the kernel that overwrites the producer's tensors is launched: here, nothing."""

    def transfer(self, group: Group, step: int) -> None:
        """Start the transfers to the host of a group of this step."""
        raise NotImplementedError

    def read(self, group: Group, step: int) -> Values | None:
        """Return the values of step - lag once they are on the host, or None while there are none yet."""
        raise NotImplementedError

    def send(self, group: Group, step: int, arrays: Arrays) -> None:
        """Send a group to the device, before the kernels of this step: one array for each of its tensors."""
        raise NotImplementedError


def to_host(groups: Sequence[Group]) -> list[Group]:
    """Return the groups that go to the host."""
    return [group for group in groups if group.direction is Direction.TO_HOST]


def to_device(groups: Sequence[Group]) -> list[Group]:
    """Return the groups that go to the device."""
    return [group for group in groups if group.direction is Direction.TO_DEVICE]


class Slot:
    """Page-locked buffers for one group to the host, and the event that fences them."""

    def __init__(self, device: DeviceLoop, group: Group) -> None:
        self._device = device
        self._group = group
        self._buffers = [device.host_buffer(tensor, Memory.PINNED) for tensor in group.tensors]
        self._per_step = [at for at, tensor in enumerate(group.tensors) if tensor.name in group.per_step]
        self._release()
        self.event: Event = device.event()

    def copy(self, stream: Stream | None = None) -> None:
        """Queue all copies of the group."""
        for at in self._per_step:
            self._buffers[at] = self._device.host_buffer(self._group.tensors[at], Memory.PINNED)
        for tensor, buffer in zip(self._group.tensors, self._buffers, strict=True):
            self._device.copy(tensor, buffer, stream)

    def values(self, step: int) -> Values:
        """Return what the buffers hold now as the values of `step`."""
        values = read_buffers(self._device, self._buffers, step)
        self._release()
        return values

    def _release(self) -> None:
        for at in self._per_step:
            self._device.release_buffer(self._buffers[at])


class Ring:
    """Slots of one group, one more than the lag of its reads.

    With as many slots as steps of lag, step k+lag would overwrite step k before it is read.
    """

    def __init__(self, device: DeviceLoop, group: Group, lag: int) -> None:
        self.lag = 0 if group.needed_in_step else lag
        self._device = device
        self._slots = [Slot(device, group) for _ in range(self.lag + 1)]

    def slot(self, step: int) -> Slot:
        """Return the slot that the values of `step` go to."""
        return self._slots[step % len(self._slots)]

    def read(self, step: int) -> Values | None:
        """Wait for the fence of step - lag and return its values; None before there are any."""
        value_step = step - self.lag
        if value_step < 0:
            return None
        slot = self.slot(value_step)
        self._device.wait(slot.event)
        return slot.values(value_step)


class Staging:
    """Pinned source buffers of one group to the device, two sets in turn.

    A queued copy reads its source when it runs: a set is rewritten only once the event behind its last copy is done.
    """

    _SETS = 2

    def __init__(self, device: DeviceLoop, group: Group) -> None:
        self._device = device
        self._tensors = group.tensors
        self._sets = [
            ([device.host_buffer(tensor, Memory.PINNED) for tensor in group.tensors], device.event())
            for _ in range(self._SETS)
        ]
        self._sent = 0

    def send(self, arrays: Arrays) -> None:
        """Write the arrays into the next set and queue its copies."""
        buffers, event = self._sets[self._sent % self._SETS]
        if self._sent >= self._SETS:
            self._device.wait(event)
        self._sent += 1
        upload_all(self._device, self._tensors, buffers, arrays)
        self._device.record(event)


class Fenced(Mode):
    """A mode with one event a group, recorded after its last copy and waited for `lag` steps later."""

    memory = Memory.PINNED

    def __init__(self, device: DeviceLoop, groups: Sequence[Group]) -> None:
        self._device = device
        self._rings = {group.name: Ring(device, group, self.lag) for group in to_host(groups)}
        self._staging = {group.name: Staging(device, group) for group in to_device(groups)}

    def transfer(self, group: Group, step: int) -> None:
        slot = self._rings[group.name].slot(step)
        slot.copy()
        self._device.record(slot.event)

    def read(self, group: Group, step: int) -> Values | None:
        return self._rings[group.name].read(step)

    def send(self, group: Group, step: int, arrays: Arrays) -> None:
        self._staging[group.name].send(arrays)


def upload_all(device: DeviceLoop, tensors: Sequence[Any], buffers: Sequence[HostBuffer], arrays: Arrays) -> None:
    """Write each array into its buffer and queue the copy to its tensor."""
    for tensor, buffer, array in zip(tensors, buffers, arrays, strict=True):
        device.write(buffer, array)
        device.upload(tensor, buffer)


def read_buffers(device: DeviceLoop, buffers: Sequence[HostBuffer], step: int) -> Values:
    """Return what the buffers hold now as the values of `step`."""
    return Values(step, {buffer.spec.name: device.read(buffer) for buffer in buffers})
