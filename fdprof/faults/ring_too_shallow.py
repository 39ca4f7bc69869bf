"""A ring of buffers that is not deeper than the lag: a copy overwrites the values of the step before it is read."""

from fdprof.backends.protocol import DeviceLoop, HostBuffer
from fdprof.faults.protocol import Fault
from fdprof.model import HazardCode, Memory, TensorSpec


class RingTooShallow(Fault):
    """Whoever asks for a buffer of a tensor gets the one that was made for it first."""

    hazard = HazardCode.RING_TOO_SHALLOW
    shows_in = ("stop_flag", "overlap")
    source = "sglang-jax #1487, vLLM #25279"

    def __init__(self, device: DeviceLoop) -> None:
        super().__init__(device)
        self._first: dict[str, HostBuffer] = {}

    def host_buffer(self, spec: TensorSpec, memory: Memory) -> HostBuffer:
        if spec.name not in self._first:
            self._first[spec.name] = self._device.host_buffer(spec, memory)
        else:
            self.has_acted = True
        return self._first[spec.name]

    def release_buffer(self, buffer: HostBuffer) -> None:
        """Keep it: the next one who asks gets it again."""


FAULT = RingTooShallow
