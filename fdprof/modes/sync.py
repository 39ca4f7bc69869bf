"""Blocking copies to pageable memory: Paddle's `.cpu()` and `.numpy()`, as FastDeploy had it before #6176."""

from collections.abc import Sequence

from fdprof.backends.protocol import DeviceLoop, HostBuffer
from fdprof.model import Group, Memory
from fdprof.modes.protocol import Arrays, Mode, Values, read_buffers, to_device


class Sync(Mode):
    """Each transfer blocks the host until its value is there."""

    memory = Memory.PAGEABLE
    fence = "inside each copy"
    lag = 0
    has_events = False
    source = "FastDeploy before #6176: .cpu(), .numpy(), slice assignment"

    def __init__(self, device: DeviceLoop, groups: Sequence[Group]) -> None:
        self._device = device
        self._fetched: dict[str, list[HostBuffer]] = {}
        self._sources = {
            group.name: [device.host_buffer(tensor, Memory.PAGEABLE) for tensor in group.tensors]
            for group in to_device(groups)
        }

    def transfer(self, group: Group, step: int) -> None:
        self._fetched[group.name] = [self._device.fetch(tensor) for tensor in group.tensors]

    def read(self, group: Group, step: int) -> Values | None:
        return read_buffers(self._device, self._fetched[group.name], step)

    def send(self, group: Group, step: int, arrays: Arrays) -> None:
        for tensor, buffer, array in zip(group.tensors, self._sources[group.name], arrays, strict=True):
            self._device.write(buffer, array)
            self._device.store(tensor, buffer)


MODE = Sync
