"""Asks NVML for a GPU's clocks and for what holds them down.  Nothing is set here."""

from collections.abc import Callable
from typing import Any

from fdprof.model import GpuState

_REASONS = {
    0x1: "gpu idle",
    0x2: "applications clocks setting",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
    0x100: "display clocks setting",
}
"""nvml.h, nvmlClocksEventReason* (nvmlClocksThrottleReason* before driver 535)."""


class Gpu:
    """One GPU, by its PCI bus id; `problem` says why it cannot be asked, None where it can."""

    def __init__(self, pci_bus_id: str) -> None:
        self.problem: str | None = None
        try:
            import pynvml
        except ImportError:
            self.problem = "GPU clocks were not read: nvidia-ml-py is not installed"
            return
        self._nvml: Any = pynvml
        try:
            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id.encode())
        except pynvml.NVMLError as error:
            self.problem = f"GPU clocks were not read: NVML says {error}"

    def state(self) -> GpuState | None:
        """Return what NVML says now; None where the GPU cannot be asked."""
        if self.problem is not None:
            return None
        nvml, handle = self._nvml, self._handle
        reasons = self._ask(lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
        return GpuState(
            sm_clock_mhz=self._ask(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
            memory_clock_mhz=self._ask(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM)),
            temperature_c=self._ask(lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
            power_mw=self._ask(lambda: nvml.nvmlDeviceGetPowerUsage(handle)),
            throttle=None if reasons is None else reasons_in(reasons),
        )

    def _ask(self, question: Callable[[], Any]) -> int | None:
        """Return the answer, None where this GPU or driver has none."""
        try:
            return int(question())
        except self._nvml.NVMLError:
            return None


def reasons_in(mask: int) -> tuple[str, ...]:
    """Return the names of the reasons in NVML's bit mask: 0x24 gives software power cap and thermal slowdown."""
    return tuple(name for bit, name in _REASONS.items() if mask & bit)
