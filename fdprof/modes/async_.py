"""Pinned, non-blocking copies with one event after the last, waited for in save_output of the same step (#6176)."""

from collections.abc import Sequence

from fdprof.backends.protocol import DeviceLoop
from fdprof.model import Group, Memory
from fdprof.modes.protocol import Slot, Values


class Async:
    """Host work between the copies and the fence overlaps the device; what comes after the fence does not."""

    memory = Memory.PINNED
    fence = "event, waited for before the read of the same step"
    lag = 0
    source = "FastDeploy #6176"

    def __init__(self, device: DeviceLoop, groups: Sequence[Group]) -> None:
        self._device = device
        self._slots = {group.name: Slot(device, group) for group in groups}

    def transfer(self, group: Group, step: int) -> None:
        slot = self._slots[group.name]
        slot.copy()
        self._device.record(slot.event)

    def read(self, group: Group, step: int) -> Values | None:
        slot = self._slots[group.name]
        self._device.wait(slot.event)
        return slot.values(step)


MODE = Async
