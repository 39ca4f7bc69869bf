"""The fence of step k is waited for in step k+1, so that the host's whole step overlaps the device (#6259)."""

from collections.abc import Sequence

from fdprof.backends.protocol import DeviceLoop
from fdprof.model import Group, Memory
from fdprof.modes.protocol import Slot, Values


class Overlap:
    """A ring of buffers, each with its event; one slot is being filled while the one before it is read."""

    memory = Memory.PINNED
    fence = "event, waited for one step later"
    lag = 1
    source = "FastDeploy #6259"

    def __init__(self, device: DeviceLoop, groups: Sequence[Group]) -> None:
        self._device = device
        # The ring must be deeper than the lag: with one slot, step k+1 would overwrite step k before it is read.
        self._depth = self.lag + 1
        self._rings = {group.name: [Slot(device, group) for _ in range(self._depth)] for group in groups}

    def transfer(self, group: Group, step: int) -> None:
        slot = self._rings[group.name][step % self._depth]
        slot.copy()
        self._device.record(slot.event)

    def read(self, group: Group, step: int) -> Values | None:
        value_step = step - self.lag
        if value_step < 0:
            return None
        slot = self._rings[group.name][value_step % self._depth]
        self._device.wait(slot.event)
        return slot.values(value_step)


MODE = Overlap
