"""The async mode without its fence: the negative control, whose stale reads must be caught."""

from collections.abc import Sequence

from fdprof.backends.protocol import DeviceLoop
from fdprof.model import Group, Memory
from fdprof.modes.protocol import Arrays, Mode, Slot, Values, to_device, to_host, upload_all


class Unfenced(Mode):
    """Reads pinned memory without knowing whether the copy has ended: wrong by construction."""

    memory = Memory.PINNED
    fence = "none (negative control)"
    lag = 0
    has_events = False
    is_control = True
    source = "the bug of FastDeploy #7221 and vLLM #36013"

    def __init__(self, device: DeviceLoop, groups: Sequence[Group]) -> None:
        self._device = device
        self._slots = {group.name: Slot(device, group) for group in to_host(groups)}
        self._sources = {
            group.name: [device.host_buffer(tensor, Memory.PINNED) for tensor in group.tensors]
            for group in to_device(groups)
        }

    def transfer(self, group: Group, step: int) -> None:
        self._slots[group.name].copy()

    def read(self, group: Group, step: int) -> Values | None:
        return self._slots[group.name].values(step)

    def send(self, group: Group, step: int, arrays: Arrays) -> None:
        upload_all(self._device, group.tensors, self._sources[group.name], arrays)


MODE = Unfenced
