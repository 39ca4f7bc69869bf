"""A pinned buffer is given back while its copy is in flight: its memory goes to somebody else, who writes it."""

from typing import Any

import numpy as np

from fdprof.backends.protocol import DeviceLoop, HostBuffer, Stream
from fdprof.faults.protocol import Fault
from fdprof.model import HazardCode, TensorSpec


class BufferRecycled(Fault):
    """The buffer is dropped as soon as its copy is queued; the next owner of its memory writes zeros."""

    hazard = HazardCode.BUFFER_RECYCLED
    shows_in = ("logprobs", "async")
    source = "pytorch #130785, TensorRT-LLM #16088; Paddle's pinned allocator caches"

    def __init__(self, device: DeviceLoop) -> None:
        super().__init__(device)
        self._owner: dict[int, HostBuffer] = {}  # who has the memory now, by the buffer that the mode knows

    def copy(self, spec: TensorSpec, into: HostBuffer, stream: Stream | None = None) -> None:
        self.has_acted = True
        current = self._owner.get(id(into), into)
        self._device.copy(spec, current, stream)
        self._device.release_buffer(current)
        owner = self._owner[id(into)] = self._device.host_buffer(spec, into.memory)
        self._device.write(owner, np.zeros(spec.shape, spec.dtype))

    def read(self, buffer: HostBuffer) -> Any:
        return self._device.read(self._owner.get(id(buffer), buffer))

    def release_buffer(self, buffer: HostBuffer) -> None:
        self._device.release_buffer(self._owner.pop(id(buffer), buffer))


FAULT = BufferRecycled
