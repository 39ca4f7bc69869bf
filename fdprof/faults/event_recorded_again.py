"""One event for all steps: the wait for step k waits for the record of step k+1."""

from fdprof.backends.protocol import Event
from fdprof.faults.protocol import Fault
from fdprof.model import HazardCode


class EventRecordedAgain(Fault):
    """Whoever asks for an event gets the same one."""

    hazard = HazardCode.EVENT_RECORDED_AGAIN
    shows_in = ("stop_flag", "overlap")
    source = "vLLM #39115, SGLang #31072"

    _only: Event | None = None

    def event(self) -> Event:
        if self._only is None:
            self._only = self._device.event()
        else:
            self.has_acted = True
        return self._only


FAULT = EventRecordedAgain
