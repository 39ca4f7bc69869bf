"""The values are made on a non-blocking side stream, and a blocking copy reads them without waiting for it."""

from fdprof.backends.protocol import DeviceLoop, Stream
from fdprof.faults.protocol import Fault
from fdprof.model import HazardCode


class CopyUnordered(Fault):
    """The update runs on a side stream; `.cpu()` waits for the compute stream only."""

    hazard = HazardCode.COPY_UNORDERED
    shows_in = ("stop_flag", "sync")
    source = "Paddle's Python-made streams are non-blocking (cuda_streams_py.cc), onnxruntime #3723"

    def __init__(self, device: DeviceLoop) -> None:
        super().__init__(device)
        self._side = device.stream()
        self._forward_done, self._update_done = device.event(), device.event()
        self._is_joined = True

    def prepare(self) -> None:
        self._join()
        self._device.prepare()

    def forward(self) -> None:
        self._join()
        self._device.forward()

    def update(self, launch_tokens: int = -1, stream: Stream | None = None) -> None:
        self.has_acted = True
        self._device.record(self._forward_done)
        self._device.stream_wait(self._forward_done, self._side)
        self._device.update(launch_tokens, self._side)
        self._device.record(self._update_done, self._side)
        self._is_joined = False

    def _join(self) -> None:
        """Let the next step's kernels wait for the update: what is missing is only the wait of the copy."""
        if not self._is_joined:
            self._device.stream_wait(self._update_done)
            self._is_joined = True


FAULT = CopyUnordered
