"""Copies into pinned memory, with the stream synchronised at once: pinning alone, without the asynchrony."""

from collections.abc import Sequence

from fdprof.backends.protocol import DeviceLoop
from fdprof.model import Group, Memory
from fdprof.modes.protocol import Arrays, Mode, Slot, Values, to_device, to_host, upload_all


class SyncPinned(Mode):
    """Non-blocking copies that the host waits for in the next line."""

    memory = Memory.PINNED
    fence = "stream synchronised straight after the copies"
    lag = 0
    has_events = False
    source = "the pattern of vLLM #22760 and kekzl/imp #1654"

    def __init__(self, device: DeviceLoop, groups: Sequence[Group]) -> None:
        self._device = device
        self._slots = {group.name: Slot(device, group) for group in to_host(groups)}
        self._sources = {
            group.name: [device.host_buffer(tensor, Memory.PINNED) for tensor in group.tensors]
            for group in to_device(groups)
        }

    def transfer(self, group: Group, step: int) -> None:
        self._slots[group.name].copy()
        self._device.synchronize()

    def read(self, group: Group, step: int) -> Values | None:
        return self._slots[group.name].values(step)

    def send(self, group: Group, step: int, arrays: Arrays) -> None:
        upload_all(self._device, group.tensors, self._sources[group.name], arrays)
        self._device.synchronize()


MODE = SyncPinned
