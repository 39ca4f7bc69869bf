"""The launch count is predicted from an older step's is_block_step: rows that get their block are not launched for."""

from typing import Any

from fdprof.backends.protocol import DeviceLoop, HostBuffer
from fdprof.faults.protocol import Fault
from fdprof.model import HazardCode


class StaleCount(Fault):
    """is_block_step is taken from the read before."""

    hazard = HazardCode.STALE_COUNT
    shows_in = ("token_count", "overlap")
    source = "FastDeploy #6753, #6785 (CUDA error 700 after a stale count)"

    def __init__(self, device: DeviceLoop) -> None:
        super().__init__(device)
        self._last: Any = None

    def read(self, buffer: HostBuffer) -> Any:
        value = self._device.read(buffer)
        if buffer.spec.name != "is_block_step":
            return value
        stale, self._last = self._last, value
        self.has_acted = self.has_acted or stale is not None
        return value if stale is None else stale


FAULT = StaleCount
