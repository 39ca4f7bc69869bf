"""Runs a scenario in a mode on a backend, block by block, and checks its tokens."""

import dataclasses
import datetime
import gc
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import cast

import numpy as np
import numpy.typing as npt

from fdprof import markers, plugins
from fdprof.audit import Audit
from fdprof.backends.protocol import Backend, ClockSample, DeviceLoop, LoopPlan
from fdprof.calibration import calibrate
from fdprof.clock import to_host_clock
from fdprof.errors import EnvironmentMissing, ScenarioFailed, UsageError
from fdprof.faults.protocol import Fault
from fdprof.loop import RecordedLoop
from fdprof.model import KERNELS, Block, DeviceWork, Direction, Group, Launch, Memory, Run, Table, WaitStyle
from fdprof.modes.protocol import Arrays, Mode
from fdprof.params import Extent, LoopParams
from fdprof.recorder import RecordedDevice, Recorder
from fdprof.scenario_check import blamed_on, check_scenario, load_scenario
from fdprof.scenarios.protocol import Scenario
from fdprof.times import parse_times
from fdprof.token_check import check_tokens
from fdprof.tokens import Reference, sent_arrays

_LAUNCH_QUEUE = 1024
"""Launches a host can run ahead of the device: without a fence it may launch that many more after the stop."""

_STEPS_TO_STOP = 2
"""Steps beyond the last that a scenario may begin only to find that nothing is left."""

_MAX_STAMPS = 20_000_000
_MAX_VALUES = 100_000_000
"""Bounds on what a block keeps in memory (320 MB of stamps, 800 MB of values): beyond them the host would swap."""

_HOST_SEED = 0x486F7374
"""Keeps the draws of host times apart from those of device times."""


@dataclass(frozen=True, slots=True)
class _StepTimes:
    """What each step of a block takes: [max_steps], host times as a factor on what the scenario asks for."""

    kernel_ns: npt.NDArray[np.int64]
    host_scale: npt.NDArray[np.float64] | None


class Session:
    """One scenario with one set of parameters on one backend, in as many modes and blocks as asked for.

    `fault` names a fault that every block is run with; `audit` keeps a journal of what the mode does and poisons its
    buffers, which a fault implies.  `disturb` is the seed by which the simulator lets block 0's copies land late and
    puts its host off; block n has disturb + n.  `work` is what another run's kernels were asked for, of the same loop
    on the same device: these are then asked for exactly that, and nothing is calibrated.
    """

    def __init__(
        self,
        backend: Backend,
        scenario_name: str,
        params: LoopParams,
        extent: Extent,
        fault: str | None = None,
        audit: bool = False,
        disturb: int | None = None,
        work: DeviceWork | None = None,
    ) -> None:
        if disturb is not None and (disturb < 0 or backend.environment().profile is None):
            raise UsageError(
                f"--disturb {disturb} on {backend.name}: only the simulator can be disturbed, by a seed of 0 or more",
                "use --backend sim",
            )
        self._backend = backend
        self._disturb = disturb
        self._scenario: Scenario = load_scenario(scenario_name)
        self._scenario_file = scenario_name
        self._scenario_name = Path(scenario_name).stem
        self._params = params
        self._extent = extent
        with blamed_on(scenario_name, "its declarations"):
            self._groups = tuple(self._scenario.groups(params))
            self._stream = self._scenario.stream(params, extent.last_step)
            check_scenario(self._groups, self._stream, self._scenario.has_prepare)
        if self._stream.last_step != extent.last_step:
            raise UsageError(
                f"{scenario_name}: stream() says last_step {self._stream.last_step}, asked for was {extent.last_step}",
                "hand last_step on as stream() gets it",
            )
        self._fault: type[Fault] | None = None if fault is None else plugins.load("faults", fault)
        self._is_audited = audit or fault is not None
        self._modes: dict[str, type[Mode]] = {}
        self._reference: Reference | None = None
        self._sent_arrays: dict[tuple[str, int], Arrays] = {}
        self._work, self._is_given_work = work, work is not None
        self._position = 0
        self._call = uuid.uuid4().hex
        _check_memory(params, extent, self._groups)

    @property
    def work(self) -> DeviceWork:
        """The step's device work: the one given, else measured at first use."""
        if self._work is None:
            self._work = calibrate(self._backend, self._plan(), self._scenario.has_prepare, self._params.device_ns)
        return self._work

    def new_run(self, mode_name: str) -> Run:
        """Return a run of the mode without blocks."""
        mode = self._mode(mode_name)
        now = datetime.datetime.now(datetime.timezone.utc)
        environment = self._backend.environment()
        device_ns, host_ns = self._mean_times(1)
        return Run(
            id=f"{now:%Y%m%d-%H%M%S}-{self._scenario_name}-{mode_name}",
            scenario=self._scenario_name,
            mode=mode_name,
            backend=self._backend.name,
            created=now.isoformat(timespec="seconds"),
            params=dataclasses.asdict(self._params) | dataclasses.asdict(self._extent),
            groups=self._groups,
            memory=mode.memory,
            lag=mode.lag,
            environment=replace(environment, nvtx=markers.listens()),
            device_work_ns=device_ns,
            host_work_ns=host_ns,
            caveats=(*self._backend.caveats(), *self._own_caveats(mode)),
            fault=None if self._fault is None else self._fault.name(),
            audited=self._is_audited,
            call=self._call,
            work=self.work,
        )

    def run(self, mode_name: str, blocks: int = 1) -> Run:
        """Return a run of the mode with so many blocks."""
        run = replace(self.new_run(mode_name), blocks=tuple(self.block(mode_name, index) for index in range(blocks)))
        return self.with_drawn_work(run)

    def with_drawn_work(self, run: Run) -> Run:
        """Return the run with the mean work of the blocks that it has: each block draws its own times."""
        device_ns, host_ns = self._mean_times(max(len(run.blocks), 1))
        return replace(run, device_work_ns=device_ns, host_work_ns=host_ns)

    def block(self, mode_name: str, index: int) -> Block:
        """Run the mode once, from the first warm-up step to the stop, and return what was recorded."""
        mode_type = self._mode(mode_name)
        self._make_sent_arrays()
        times = self._step_times(index)
        plan = replace(self._plan(), kernel_ns=times.kernel_ns)
        if self._disturb is not None:
            self._backend.disturb(self._disturb + index)
        with _Opened(self._backend, plan) as device:
            recorder = Recorder(self._backend.clock_ns, self._backend.thread_cpu_ns)
            audit = Audit(device) if self._is_audited else None
            recorded: DeviceLoop = RecordedDevice(audit or device, recorder)
            fault = None if self._fault is None else self._fault(recorded)
            used: DeviceLoop = recorded if fault is None else cast("DeviceLoop", fault)
            carried = tuple(group for group in self._groups if group.op_memory is None)
            loop = RecordedLoop(
                self._params,
                self._backend,
                used,
                mode_type(used, carried),
                self._groups,
                recorder,
                self._sent,
                times.host_scale,
                audit,
            )
            gpu = [self._backend.gpu_state()]
            before = self._backend.clock_sample()
            with blamed_on(self._scenario_file, "in a step"):
                begun = self._run_steps(loop, recorder, audit, plan.max_steps)
            gpu.append(self._backend.gpu_state())  # at once, before the clocks come down
            stamps = device.stamps()[:begun]
            samples = (before, self._backend.clock_sample())
        if self._disturb is not None:
            self._backend.disturb(None)
        if fault is not None and not fault.has_acted:
            scenario, mode = fault.shows_in
            raise UsageError(
                f"fault {fault.name()} finds nothing to do wrong in {self._scenario_name} with {mode_name}",
                f"it shows in: fdprof run {scenario} --mode {mode} --fault {fault.name()}",
            )
        reference = self._reference_of(begun)
        tokens, reads = check_tokens(self._groups, loop.reads, reference, loop.updates, not loop.is_running)
        journal = None if audit is None else audit.journal(reference.active_rows)
        names = () if audit is None else audit.tensor_names
        block = Block(
            index=index,
            position=self._position,
            warmup=self._extent.warmup,
            steps=self._extent.steps,
            log=recorder.log(_kernel_table(stamps, samples), reads, journal, names),
            clock=self._backend.clock_info(samples),
            tokens=tokens,
            gpu=tuple(state for state in gpu if state is not None),
        )
        self._position += 1
        return block

    def _run_steps(self, loop: RecordedLoop, recorder: Recorder, audit: Audit | None, max_steps: int) -> int:
        """Run until the scenario stops or the stamps are full; return the steps begun."""
        step = self._scenario.step
        # A collection of Python's garbage in the middle of a step would be charged to the transfer it interrupts.
        gc.disable()
        try:
            while loop.is_running and loop.step < max_steps:
                if audit is not None:
                    audit.step = loop.step
                recorder.begin_step(loop.step)
                step(loop, loop.step)
                recorder.end_step()
                loop.step += 1
        finally:
            gc.enable()
        return loop.step

    def _plan(self) -> LoopPlan:
        params = self._params
        run_ahead = _LAUNCH_QUEUE // (params.kernels + 1) + 1
        max_steps = self._extent.last_step + 1 + _STEPS_TO_STOP + run_ahead
        return LoopPlan(
            stream=self._stream,
            groups=self._groups,
            max_steps=max_steps,
            kernels=params.kernels,
            kernel_ns=np.zeros(max_steps, dtype=np.int64),
            launch=Launch(params.launch),
            wait=WaitStyle(params.wait),
        )

    def _drawn_times(self, block: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return device work and host work in ns of each step of a block."""
        params, steps = self._params, self._plan().max_steps
        seed = (params.seed, block)  # not their sum: neighbouring seeds would share all blocks but one
        device = parse_times(params.device_times, "--device-times").draw(self.work.step_ns, steps, seed)
        host = parse_times(params.host_times, "--host-times")
        return device, host.draw(params.host_work_ns, steps, (*seed, _HOST_SEED))

    def _step_times(self, block: int) -> _StepTimes:
        params, work = self._params, self.work
        device, host = self._drawn_times(block)
        kernel_ns = np.maximum(work.kernel_ns + np.rint((device - work.step_ns) / params.kernels), 0).astype(np.int64)
        if params.host_times == "fixed":
            return _StepTimes(kernel_ns, None)
        if not params.host_work_ns:
            raise UsageError(
                "--host-times vary the host work, and there is none",
                "give --schedule-us or --save-output-us: their ratio says where the work stands",
            )
        return _StepTimes(kernel_ns, host / params.host_work_ns)

    def _mean_times(self, blocks: int) -> tuple[int, int]:
        """Return the mean device work and host work in ns of the counted steps of so many blocks, as drawn for them."""
        counted = slice(self._extent.warmup, self._extent.last_step + 1)
        varies = {self._params.device_times, self._params.host_times} != {"fixed"}
        drawn = [self._drawn_times(block) for block in range(blocks if varies else 1)]
        device, host = (np.mean([times[which][counted].mean() for times in drawn]) for which in (0, 1))
        return round(float(device)), round(float(host))

    def _sent(self, group: Group, step: int) -> Arrays:
        """Return the arrays of a group to the device at a step."""
        key = (group.name, step)
        if key not in self._sent_arrays:
            self._sent_arrays[key] = sent_arrays(self._stream, group, step)
        return self._sent_arrays[key]

    def _make_sent_arrays(self) -> None:
        """Make what the steps will send, so that none of them pays for it."""
        if self._sent_arrays or not self._stream.insert_every:
            return
        for group in self._groups:
            if group.direction is Direction.TO_DEVICE:
                for step in range(0, self._extent.last_step + 1, self._stream.insert_every):
                    self._sent(group, step)

    def _reference_of(self, steps: int) -> Reference:
        """Return the reference of so many steps; kept, because blocks tend to be alike."""
        if self._reference is None or self._reference.steps != steps:
            self._reference = Reference(self._stream, self._groups, steps)
        return self._reference

    def _mode(self, name: str) -> type[Mode]:
        """Return a mode; UsageError where it cannot wait as the parameters say."""
        if name not in self._modes:
            mode: type[Mode] = plugins.load("modes", name)
            if mode.memory is Memory.MAPPED and self._params.wait == WaitStyle.BLOCKING.value:
                raise UsageError(
                    f"{name} cannot wait in the style blocking: it has no event that a thread could sleep on",
                    "choose --wait spin, poll or yield",
                )
            self._modes[name] = mode
        return self._modes[name]

    def _own_caveats(self, mode: type[Mode]) -> tuple[str, ...]:
        caveats = []
        if self._is_audited:
            cost = "which costs no simulated time" if self._backend.environment().profile else "which the times include"
            caveats.append(f"audited: buffers are poisoned before each copy and every call is journalled, {cost}")
        if self._disturb is not None:
            caveats.append(
                f"disturbed by seed {self._disturb}: copies land late and the host is put off; no real times"
            )
        if self._is_given_work:
            caveats.append("the kernels run as long as those of the run that --work-of names: not calibrated here")
        if self._params.wait != WaitStyle.SPIN.value and not mode.has_events:
            caveats.append(f"--wait {self._params.wait} changes nothing: this mode waits for no event")
        return tuple(caveats)


class _Opened:
    """A device loop that is closed whatever happens; what interrupted it counts, not what closing it then meets."""

    def __init__(self, backend: Backend, plan: LoopPlan) -> None:
        self._device = backend.open_loop(plan)

    def __enter__(self) -> DeviceLoop:
        return self._device

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._device.close()
        except ScenarioFailed:
            if kind is None:
                raise


def open_backend(name: str, timeout_s: float) -> tuple[Backend, str]:
    """Return a backend and the reason for it.

    `auto` takes paddle if it works here, else sim.  EnvironmentMissing when the named one does not work.
    """
    if name == "auto":
        problem = plugins.load("backends", "paddle").missing()
        if problem is not None:
            return plugins.load("backends", "sim")(timeout_s), problem[0]
        return plugins.load("backends", "paddle")(timeout_s), "a GPU with Paddle works here"
    backend = plugins.load("backends", name, others=("auto",))
    problem = backend.missing()
    if problem is not None:
        raise EnvironmentMissing(f"backend {name} cannot run here: {problem[0]}", problem[1])
    return backend(timeout_s), "as asked for"


def abba(seed: int) -> Iterator[int]:
    """Yield sides 0 and 1 without end, in rounds of A B B A or B A A B as the seed draws.

    Within a round a drift of the machine cancels, and the drawn starts keep the rounds out of step with anything that
    comes and goes by itself.
    """
    draw = np.random.default_rng(seed)
    while True:
        first = int(draw.integers(2))
        yield from (first, 1 - first, 1 - first, first)


def _kernel_table(stamps: np.ndarray[tuple[int, ...], np.dtype[np.int64]], samples: Sequence[ClockSample]) -> Table:
    """Return the kernels that ran, in the order of the device: prepare, forward, update."""
    steps, kernels, _ = stamps.shape
    in_order = np.concatenate((stamps[:, -1:], stamps[:, :-1]), axis=1)
    kernel = np.tile(np.concatenate(([kernels - 1], np.arange(kernels - 1))), steps)
    step = np.repeat(np.arange(steps), kernels)
    ran = in_order[:, :, 0].reshape(-1) != 0
    host = to_host_clock(in_order, samples).reshape(-1, 2)[ran]
    return Table.of(KERNELS, {"step": step[ran], "kernel": kernel[ran], "start_ns": host[:, 0], "end_ns": host[:, 1]})


def _check_memory(params: LoopParams, extent: Extent, groups: Sequence[Group]) -> None:
    steps = extent.last_step + 1
    if steps * (params.kernels + 2) > _MAX_STAMPS:
        raise UsageError(
            f"{steps:,} steps of {params.kernels:,} kernels need {steps * (params.kernels + 2):,} stamps, "
            f"at most {_MAX_STAMPS:,} are kept",
            "lower --steps or --kernels",
        )
    values = sum(tensor.elements for group in groups for tensor in group.tensors)
    if steps * values > _MAX_VALUES:
        raise UsageError(
            f"{steps:,} steps that move {values:,} values each make {steps * values:,}, "
            f"at most {_MAX_VALUES:,} are kept",
            "lower --steps or --sequences",
        )
