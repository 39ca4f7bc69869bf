"""The loop object that a scenario's step is given, while it is being recorded."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from fdprof.audit import Audit
from fdprof.backends.protocol import Backend, DeviceLoop
from fdprof.errors import ScenarioFailed
from fdprof.model import Group, Producer
from fdprof.modes._inside_op import InsideOp
from fdprof.modes.protocol import Arrays, Mode, Values
from fdprof.params import LoopParams
from fdprof.recorder import Recorder
from fdprof.token_check import Read


class RecordedLoop:
    """Joins backend, mode and recorder for one block (scenarios.protocol.Loop)."""

    def __init__(
        self,
        params: LoopParams,
        backend: Backend,
        device: DeviceLoop,
        mode: Mode,
        groups: Sequence[Group],
        recorder: Recorder,
        sent: Callable[[Group, int], Arrays],
        host_scale: npt.NDArray[np.float64] | None = None,
        audit: Audit | None = None,
    ) -> None:
        self.params = params
        self.step = 0
        self.updates = 0
        self.is_running = True
        self.reads: list[Read] = []
        self._device = device
        self._mode = mode
        self._recorder = recorder
        self._audit = audit
        self._sent = sent
        self._host_scale = host_scale
        self._backend_work = backend.host_work
        inside_op = InsideOp(device, groups)
        self._carriers: Mapping[str, Mode | InsideOp] = {
            group.name: mode if group.op_memory is None else inside_op for group in groups
        }
        self._numbers = {group.name: number for number, group in enumerate(groups)}
        self._groups = {group.name: group for group in groups}
        self._transferred = {group.name: -1 for group in groups}  # the step, as is the next
        self._read_at = dict(self._transferred)
        self._prepared = -1
        # Bound once: a frame of this class around each would be charged to the step.
        self.range = recorder.range
        self.forward = device.forward
        self.host_work = backend.host_work if host_scale is None else self._scaled_work
        # Most modes have nothing to do before a kernel, and then the step must not pay for asking.
        self._has_before = type(mode).before is not Mode.before

    def send(self, group: Group) -> None:
        self._mode.send(group, self.step, self._sent(group, self.step))

    def prepare(self) -> None:
        if self._has_before:
            self._mode.before(Producer.PREPARE, self.step)
        self._device.prepare()
        self._prepared = self.step

    def sample_and_update(self, launch_tokens: int = -1) -> None:
        if self._has_before:
            self._mode.before(Producer.UPDATE, self.step)
        self._device.update(launch_tokens)
        self.updates += 1

    def transfer(self, group: Group) -> None:
        declared = self._groups.get(group.name)
        # Equal will do, but to be the same is quicker to see.
        if self._transferred.get(group.name) == self.step or (declared is not group and declared != group):
            raise self._mistransferred(group)
        if (self._prepared if group.made_by is Producer.PREPARE else self.updates - 1) < self.step:
            call = "prepare()" if group.made_by is Producer.PREPARE else "sample_and_update()"
            raise ScenarioFailed(
                f"step {self.step} transfers group {group.name} before the kernel that makes its values",
                f"call loop.{call} in each step before loop.transfer({group.name})",
            )
        self._transferred[group.name] = self.step
        waits = len(self._recorder.waits)
        self._carriers[group.name].transfer(group, self.step)
        self._recorder.waited_for(waits, self._numbers[group.name], self.step)

    def read(self, group: Group) -> Values | None:
        name = group.name
        if self._transferred[name] < self.step - self._lag(group) or self._read_at[name] == self.step:
            raise self._misread(group)
        self._read_at[name] = self.step
        waits = len(self._recorder.waits)
        values = self._carriers[group.name].read(group, self.step)
        if values is None:
            return None
        self._recorder.waited_for(waits, self._numbers[group.name], values.step)
        poisoned = frozenset() if self._audit is None else self._audit.take_poisoned()
        self.reads.append(Read(self.step, group, values, poisoned))
        return values

    def flush(self, group: Group) -> Values | None:
        return self.read(group) if self._lag(group) else None

    def _lag(self, group: Group) -> int:
        return 0 if group.needed_in_step or group.op_memory is not None else self._mode.lag

    def _mistransferred(self, group: Group) -> ScenarioFailed:
        name = group.name
        if self._transferred.get(name) == self.step:
            return ScenarioFailed(f"step {self.step} transfers group {name} twice", "transfer each group once a step")
        return ScenarioFailed(
            f"step {self.step} transfers another group {name} than groups() declared", "keep the groups it returned"
        )

    def _misread(self, group: Group) -> ScenarioFailed:
        name = group.name
        if self._read_at[name] == self.step:
            return ScenarioFailed(f"step {self.step} reads group {name} twice", "keep what the first read returned")
        return ScenarioFailed(
            f"step {self.step} reads group {name}, which was not transferred", f"call loop.transfer({name}) before"
        )

    def _scaled_work(self, duration_ns: int) -> None:
        assert self._host_scale is not None
        self._backend_work(round(duration_ns * float(self._host_scale[self.step])))

    def save(self, values: Values) -> None:
        """Hand the values on; the check of all reads comes after the loop, outside the timed region."""

    def stop(self) -> None:
        self.is_running = False
