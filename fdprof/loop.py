"""The loop object that a scenario's step is given, while it is being recorded."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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


@dataclass(slots=True)
class _GroupState:
    """A group as declared, who carries it, and the steps it was last transferred and read at."""

    group: Group
    number: int
    carrier: Mode | InsideOp
    lag: int
    is_prepared: bool  # made by the pre-processing
    transferred: int = -1
    read_at: int = -1


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
        # Tuples, because a frozen record costs 2 µs to make: they become records in `reads`.
        self._reads: list[tuple[int, Group, Values, frozenset[str]]] = []
        self._device = device
        self._mode = mode
        self._waits = recorder.waits
        self._waited_for = recorder.waited_for
        self._audit = audit
        self._sent = sent
        self._host_scale = host_scale
        self._backend_work = backend.host_work
        inside_op = InsideOp(device, groups)
        self._groups = {
            group.name: _GroupState(
                group,
                number,
                mode if group.op_memory is None else inside_op,
                0 if group.needed_in_step or group.op_memory is not None else mode.lag,
                group.made_by is Producer.PREPARE,
            )
            for number, group in enumerate(groups)
        }
        self._prepared = -1
        # Bound once: a frame of this class around each would be charged to the step.
        self.range = recorder.range
        self.forward = device.forward
        self.host_work = backend.host_work if host_scale is None else self._scaled_work
        # Most modes have nothing to do before a kernel, and then the step must not pay for asking.
        self._has_before = type(mode).before is not Mode.before

    @property
    def reads(self) -> list[Read]:
        """What was read so far."""
        return [Read(*read) for read in self._reads]

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
        state, step = self._groups.get(group.name), self.step
        # Equal will do, but to be the same is quicker to see.
        if state is None or (state.group is not group and state.group != group) or state.transferred == step:
            raise self._mistransferred(group, state)
        if (self._prepared if state.is_prepared else self.updates - 1) < step:
            raise self._transferred_early(group)
        state.transferred = step
        waits = len(self._waits)
        state.carrier.transfer(group, step)
        if len(self._waits) > waits:
            self._waited_for(waits, state.number, step)

    def read(self, group: Group) -> Values | None:
        state, step = self._groups[group.name], self.step
        if state.transferred < step - state.lag or state.read_at == step:
            raise self._misread(group, state)
        state.read_at = step
        waits = len(self._waits)
        values = state.carrier.read(group, step)
        if values is None:
            return None
        if len(self._waits) > waits:
            self._waited_for(waits, state.number, values.step)
        self._reads.append((step, group, values, _NONE if self._audit is None else self._audit.take_poisoned()))
        return values

    def flush(self, group: Group) -> Values | None:
        return self.read(group) if self._groups[group.name].lag else None

    def _mistransferred(self, group: Group, state: _GroupState | None) -> ScenarioFailed:
        if state is not None and state.transferred == self.step:
            what, hint = f"transfers group {group.name} twice", "transfer each group once a step"
        else:
            what = f"transfers another group {group.name} than groups() declared"
            hint = "keep the groups that groups() returned"
        return ScenarioFailed(f"step {self.step} {what}", hint)

    def _transferred_early(self, group: Group) -> ScenarioFailed:
        call = "prepare()" if group.made_by is Producer.PREPARE else "sample_and_update()"
        return ScenarioFailed(
            f"step {self.step} transfers group {group.name} before the kernel that makes its values",
            f"call loop.{call} in each step before loop.transfer({group.name})",
        )

    def _misread(self, group: Group, state: _GroupState) -> ScenarioFailed:
        if state.read_at == self.step:
            what, hint = f"reads group {group.name} twice", "keep what the first read returned"
        else:
            what = f"reads group {group.name}, which was not transferred"
            hint = f"call loop.transfer({group.name}) before"
        return ScenarioFailed(f"step {self.step} {what}", hint)

    def _scaled_work(self, duration_ns: int) -> None:
        assert self._host_scale is not None
        self._backend_work(round(duration_ns * float(self._host_scale[self.step])))

    def save(self, values: Values) -> None:
        """Hand the values on; the check of all reads comes after the loop, outside the timed region."""

    def stop(self) -> None:
        self.is_running = False


_NONE: frozenset[str] = frozenset()
