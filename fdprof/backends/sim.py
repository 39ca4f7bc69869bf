"""The backend without a GPU: a discrete-event model in virtual time, driven by a measured device profile.

Step times are not scripted: they follow from the profile's costs and from what scenario and mode do.  The model is a
host thread, in-order streams, a copy engine for each direction, launches that cost host time and start with a latency,
gaps between operations, blocking copies through pageable staging, mapped memory, and a wake-up after each wait.
The decode state is real: the same scenario and mode code runs, and its tokens are checked like a GPU's.
"""

import os
import platform
from collections.abc import Sequence

from fdprof.backends._adversary import Adversary
from fdprof.backends._des import Simulator
from fdprof.backends._sim_loop import SimLoop
from fdprof.backends.protocol import ClockSample, LoopPlan
from fdprof.model import ClockInfo, Environment
from fdprof.profiles.profile import DeviceProfile, load_profile
from fdprof.version import VERSION

_NS_PER_S = 1_000_000_000


class SimBackend:
    """Virtual time on a modelled device."""

    name = "sim"

    @classmethod
    def missing(cls) -> tuple[str, str] | None:
        return None

    def __init__(self, timeout_s: float, profile: str = "h200") -> None:
        self.profile: DeviceProfile = load_profile(profile)
        self._adversary: Adversary | None = None
        self._timeout_ns = round(timeout_s * _NS_PER_S)
        self._simulator = Simulator(self.profile.gap_ns, self.profile.card.graph_node_gap_ns)

    def clock_ns(self) -> int:
        return self._simulator.now_ns

    def thread_cpu_ns(self) -> int:
        return self._simulator.now_ns - self._simulator.slept_ns

    def host_work(self, duration_ns: int) -> None:
        if duration_ns <= 0:
            return
        self._simulator.advance(duration_ns + self.profile.host.work_call_ns)

    def open_loop(self, plan: LoopPlan) -> "SimLoop":
        return SimLoop(self._simulator, self.profile, plan, self._timeout_ns, self._adversary)

    def disturb(self, seed: int | None) -> None:
        self._adversary = None if seed is None else Adversary(seed)

    def clock_sample(self) -> ClockSample:
        now = self._simulator.now_ns
        return ClockSample(host_ns=now, device_ns=now, error_ns=0)

    def clock_info(self, samples: Sequence[ClockSample]) -> ClockInfo:
        return ClockInfo("virtual time", "virtual time", "one clock: virtual time", 0, None)

    def gpu_state(self) -> None:
        """Return nothing: the model's clocks do not move."""

    def environment(self) -> Environment:
        return Environment(
            fdprof=VERSION,
            python=platform.python_version(),
            os=platform.system(),
            cpu="simulated",
            cpu_count=os.cpu_count(),
            gpu=f"{self.profile.gpu} (simulated)",
            profile=self.profile.name,
        )

    def caveats(self) -> tuple[str, ...]:
        return (
            f"simulated: no GPU was used; every time comes from a model with the measured costs of profile "
            f"{self.profile.name} ({self.profile.gpu}, {self.profile.framework})",
        )


BACKEND = SimBackend
