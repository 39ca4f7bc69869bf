"""A pinned source is rewritten while its copy to the device is still queued: the copy reads the newer bytes."""

from typing import Any

import numpy as np
import numpy.typing as npt

from fdprof.backends.protocol import DeviceLoop, HostBuffer, Stream
from fdprof.faults.protocol import Fault
from fdprof.model import HazardCode, TensorSpec
from fdprof.tokens import INSERT_TASK


class SourceRewritten(Fault):
    """The next request's values go into the same staging buffer at once."""

    hazard = HazardCode.SOURCE_REWRITTEN
    shows_in = ("insert_tasks", "overlap")
    source = "TensorRT-LLM #15546, vLLM #29288, tokenspeed #376"

    def __init__(self, device: DeviceLoop) -> None:
        super().__init__(device)
        self._written: dict[str, npt.NDArray[Any]] = {}

    def write(self, buffer: HostBuffer, values: npt.NDArray[Any]) -> None:
        self._written[buffer.spec.name] = values
        self._device.write(buffer, values)

    def upload(self, spec: TensorSpec, source: HostBuffer, stream: Stream | None = None) -> None:
        self._device.upload(spec, source, stream)
        # The task itself is left alone: a request that goes nowhere would hide what became of its values.
        if spec.name != INSERT_TASK:
            self.has_acted = True
            self._device.write(source, np.asarray(self._written[spec.name] + 1, self._written[spec.name].dtype))


FAULT = SourceRewritten
