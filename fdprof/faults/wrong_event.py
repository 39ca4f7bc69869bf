"""The fence waits for the event of an earlier step, which has long been done."""

from fdprof.backends.protocol import DeviceLoop, Event, Stream
from fdprof.faults.protocol import Fault
from fdprof.model import HazardCode


class WrongEvent(Fault):
    """Each wait is for the record that came before the one it means."""

    hazard = HazardCode.WRONG_EVENT
    shows_in = ("stop_flag", "async")
    source = "SGLang #31072, FastDeploy #7788 (values of another batch)"

    def __init__(self, device: DeviceLoop) -> None:
        super().__init__(device)
        self._own: dict[int, Event] = {}
        self._before: dict[int, Event] = {}
        self._newest: Event | None = None

    def record(self, event: Event, stream: Stream | None = None) -> None:
        # An event of its own for each record, so that the earlier one can still be waited for.
        own = self._device.event()
        self._device.record(own, stream)
        self._own[id(event)] = own
        self._before[id(event)] = own if self._newest is None else self._newest
        self._newest = own

    def wait(self, event: Event) -> None:
        before = self._before[id(event)]
        self.has_acted = self.has_acted or before is not self._own[id(event)]
        self._device.wait(before)

    def stream_wait(self, event: Event, stream: Stream | None = None) -> None:
        self._device.stream_wait(self._own[id(event)], stream)


FAULT = WrongEvent
