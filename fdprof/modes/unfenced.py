"""The async mode without its fence: the negative control, whose stale reads must be caught."""

from collections.abc import Sequence

from fdprof.backends.protocol import DeviceLoop
from fdprof.model import Group, Memory
from fdprof.modes.protocol import Slot, Values


class Unfenced:
    """Reads pinned memory without knowing whether the copy has ended: wrong by construction."""

    memory = Memory.PINNED
    fence = "none (negative control)"
    lag = 0
    source = "the bug of FastDeploy #7221 and vLLM #36013"

    def __init__(self, device: DeviceLoop, groups: Sequence[Group]) -> None:
        self._slots = {group.name: Slot(device, group) for group in groups}

    def transfer(self, group: Group, step: int) -> None:
        self._slots[group.name].copy()

    def read(self, group: Group, step: int) -> Values | None:
        return self._slots[group.name].values(step)


MODE = Unfenced
