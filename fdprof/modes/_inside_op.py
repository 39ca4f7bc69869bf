"""Carries a group whose transfer sits inside an op of the engine, so that no mode has a say in it."""

from collections.abc import Sequence

from fdprof.backends.protocol import DeviceLoop, HostBuffer
from fdprof.model import Group
from fdprof.modes.protocol import Values, read_buffers


class InsideOp:
    """A copy that is asynchronous in name, and the stream synchronised straight after it."""

    def __init__(self, device: DeviceLoop, groups: Sequence[Group]) -> None:
        self._device = device
        self._buffers: dict[str, list[HostBuffer]] = {
            group.name: [device.host_buffer(tensor, group.op_memory) for tensor in group.tensors]
            for group in groups
            if group.op_memory is not None
        }

    def transfer(self, group: Group, step: int) -> None:
        for tensor, buffer in zip(group.tensors, self._buffers[group.name], strict=True):
            self._device.copy(tensor, buffer)
        self._device.synchronize()

    def read(self, group: Group, step: int) -> Values | None:
        return read_buffers(self._device, self._buffers[group.name], step)
