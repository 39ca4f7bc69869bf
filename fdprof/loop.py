"""The loop object that a scenario's step is given, while it is being recorded."""

from fdprof.backends.protocol import Backend
from fdprof.model import Group
from fdprof.modes.protocol import Mode, Values
from fdprof.params import LoopParams
from fdprof.recorder import RecordedDevice, Recorder


class RecordedLoop:
    """Joins backend, mode and recorder for one block (scenarios.protocol.Loop)."""

    def __init__(
        self, params: LoopParams, backend: Backend, device: RecordedDevice, mode: Mode, recorder: Recorder
    ) -> None:
        self.params = params
        self.step = 0
        self.is_running = True
        self.reads: list[tuple[int, Group, Values]] = []
        self._mode = mode
        # Bound once: a frame of this class around each would be charged to the step.
        self.range = recorder.range
        self.host_work = backend.host_work
        self.forward = device.forward
        self.sample_and_update = device.update

    def transfer(self, group: Group) -> None:
        self._mode.transfer(group, self.step)

    def read(self, group: Group) -> Values | None:
        values = self._mode.read(group, self.step)
        if values is not None:
            self.reads.append((self.step, group, values))
        return values

    def save(self, values: Values) -> None:
        """Hand the values on; the check of all reads comes after the loop, outside the timed region."""

    def stop(self) -> None:
        self.is_running = False
