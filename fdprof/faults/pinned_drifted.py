"""A pinned tensor is indexed in Python, and Paddle moves it to the device for good."""

from typing import Any

from fdprof.backends.protocol import HostBuffer
from fdprof.faults.protocol import Fault
from fdprof.model import HazardCode, Memory


class PinnedDrifted(Fault):
    """`tensor[0]` on every pinned buffer that is read, as a log line or an assertion would do."""

    hazard = HazardCode.PINNED_DRIFTED
    shows_in = ("stop_flag", "async")
    source = "Paddle #78835; why FastDeploy #6176 has get_stop and set_stop"

    def read(self, buffer: HostBuffer) -> Any:
        if buffer.memory is Memory.PINNED:  # what Paddle knows to be pinned; it leaves mapped memory of ours alone
            self.has_acted = True
            self._device.index(buffer)
        return self._device.read(buffer)


FAULT = PinnedDrifted
