"""No copies to the host: the kernel that makes the values writes them to mapped memory, and the host polls."""

from collections.abc import Sequence

from fdprof.backends.protocol import DeviceLoop, HostBuffer
from fdprof.model import Group, Memory
from fdprof.modes.protocol import Arrays, Mode, Staging, Values, read_buffers, to_device, to_host


class Mapped(Mode):
    """Values, a system-scope fence, then a sequence number; the host polls the number one step later.

    Mapped memory is made once, whatever the group's per_step says: the kernel must know its address beforehand.
    """

    memory = Memory.MAPPED
    fence = "sequence number in mapped memory, polled one step later"
    lag = 1
    source = "zero-copy memory, CUDA C++ programming guide (mapped memory, memory fence functions)"

    def __init__(self, device: DeviceLoop, groups: Sequence[Group]) -> None:
        self._device = device
        self._lags = {group.name: 0 if group.needed_in_step else self.lag for group in to_host(groups)}
        # One slot more than the lag, for the reason given at Ring.
        self._slots: dict[str, list[list[HostBuffer]]] = {
            group.name: [
                [device.host_buffer(tensor, Memory.MAPPED) for tensor in group.tensors]
                for _ in range(self._lags[group.name] + 1)
            ]
            for group in to_host(groups)
        }
        self._publications = {group.name: device.publish(group, self._slots[group.name]) for group in to_host(groups)}
        self._staging = {group.name: Staging(device, group) for group in to_device(groups)}

    def transfer(self, group: Group, step: int) -> None:
        """Do nothing: the kernel carried the values."""

    def read(self, group: Group, step: int) -> Values | None:
        value_step = step - self._lags[group.name]
        if value_step < 0:
            return None
        self._device.poll(self._publications[group.name], value_step)
        slots = self._slots[group.name]
        return read_buffers(self._device, slots[value_step % len(slots)], value_step)

    def send(self, group: Group, step: int, arrays: Arrays) -> None:
        self._staging[group.name].send(arrays)


MODE = Mapped
