"""The copy stream's copies are not waited for before the next step's kernel overwrites the tensors they read."""

from fdprof.backends.protocol import Event, Stream
from fdprof.faults.protocol import Fault
from fdprof.model import HazardCode


class TensorOverwritten(Fault):
    """The compute stream never waits for the copy stream."""

    hazard = HazardCode.TENSOR_OVERWRITTEN
    shows_in = ("stop_flag", "overlap-copy-stream")
    source = "SGLang #18744 (a slot rewritten while another stream reads it), llama.cpp #18313"

    def stream_wait(self, event: Event, stream: Stream | None = None) -> None:
        if stream is None:
            self.has_acted = True
        else:
            self._device.stream_wait(event, stream)


FAULT = TensorOverwritten
