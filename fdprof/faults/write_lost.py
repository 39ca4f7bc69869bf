"""The host sets the stop flag while a copy from the device into it is in flight: the older value overwrites it."""

import numpy as np

from fdprof.backends.protocol import HostBuffer, Stream
from fdprof.faults.protocol import Fault
from fdprof.model import HazardCode, TensorSpec


class WriteLost(Fault):
    """A new request arrives in every step, and set_stop(True) is called before the fence: the lost wake-up."""

    hazard = HazardCode.WRITE_LOST
    shows_in = ("stop_flag", "async")
    source = "the design of FastDeploy #6176: insert_tasks writes not_need_stop"

    def copy(self, spec: TensorSpec, into: HostBuffer, stream: Stream | None = None) -> None:
        self._device.copy(spec, into, stream)
        if spec.name == "not_need_stop":
            self.has_acted = True
            self._device.write(into, np.array([True]))


FAULT = WriteLost
