"""The overlap mode with its copies to the host on a stream of their own, beside the compute stream."""

from collections.abc import Sequence

from fdprof.backends.protocol import DeviceLoop, Event
from fdprof.model import Group, Producer
from fdprof.modes.protocol import Fenced, to_host


class OverlapCopyStream(Fenced):
    """The copies leave the compute stream free; two cross-stream waits a group keep them and the kernels in order.

    What goes to the device stays on the compute stream: the step's kernels have to wait for it anyway.
    """

    fence = "event on the copy stream, waited for one step later"
    lag = 1
    source = "the copy stream of vLLM's and SGLang's async output; the cost SGLang #29642 reports"

    def __init__(self, device: DeviceLoop, groups: Sequence[Group]) -> None:
        super().__init__(device, groups)
        self._stream = device.stream()
        self._made: dict[str, Event] = {group.name: device.event() for group in to_host(groups)}
        self._by_producer = {
            producer: [group for group in to_host(groups) if group.made_by is producer] for producer in Producer
        }

    def before(self, producer: Producer, step: int) -> None:
        """Keep the kernel from overwriting tensors that the copies of the step before may still be reading."""
        if step == 0:
            return
        for group in self._by_producer[producer]:
            self._device.stream_wait(self._rings[group.name].slot(step - 1).event)

    def transfer(self, group: Group, step: int) -> None:
        made, slot = self._made[group.name], self._rings[group.name].slot(step)
        self._device.record(made)
        self._device.stream_wait(made, self._stream)
        slot.copy(self._stream)
        self._device.record(slot.event, self._stream)


MODE = OverlapCopyStream
