"""Blocking copies to pageable memory: Paddle's `.cpu()` and `.numpy()`, as FastDeploy had it before #6176."""

from collections.abc import Sequence

from fdprof.backends.protocol import DeviceLoop, HostBuffer
from fdprof.model import Group, Memory
from fdprof.modes.protocol import Values, read_buffers


class Sync:
    """Each transfer blocks the host until its value is there."""

    memory = Memory.PAGEABLE
    fence = "inside each copy"
    lag = 0
    source = "FastDeploy before #6176: .cpu(), .numpy()"

    def __init__(self, device: DeviceLoop, groups: Sequence[Group]) -> None:
        self._device = device
        self._fetched: dict[str, list[HostBuffer]] = {}

    def transfer(self, group: Group, step: int) -> None:
        self._fetched[group.name] = [self._device.fetch(tensor) for tensor in group.tensors]

    def read(self, group: Group, step: int) -> Values | None:
        return read_buffers(self._device, self._fetched[group.name], step)


MODE = Sync
