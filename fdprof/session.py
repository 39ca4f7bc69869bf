"""Runs a scenario in a mode on a backend, block by block, and checks its tokens."""

import dataclasses
import datetime
import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from fdprof import plugins
from fdprof.backends.protocol import Backend, ClockSample, LoopPlan
from fdprof.calibration import DeviceWork, calibrate
from fdprof.clock import to_host_clock
from fdprof.errors import EnvironmentMissing, UsageError
from fdprof.loop import RecordedLoop
from fdprof.model import KERNELS, Block, Run, Table
from fdprof.modes.protocol import Mode
from fdprof.params import Extent, LoopParams
from fdprof.recorder import RecordedDevice, Recorder
from fdprof.scenarios.protocol import Scenario
from fdprof.token_check import check_tokens
from fdprof.tokens import reference_stream

_LAUNCH_QUEUE = 1024
"""Launches a host can run ahead of the device: without a fence it may launch that many more after the stop."""

_MAX_STAMPS = 20_000_000
_MAX_VALUES = 100_000_000
"""Bounds on what a block keeps in memory (320 MB of stamps, 800 MB of tokens): beyond them the host would swap."""


class Session:
    """One scenario with one set of parameters on one backend, in as many modes and blocks as asked for."""

    def __init__(self, backend: Backend, scenario_name: str, params: LoopParams, extent: Extent) -> None:
        _check_memory(params, extent)
        self._backend = backend
        self._scenario_name = scenario_name
        self._scenario: Scenario = plugins.load("scenarios", scenario_name)
        self._params = params
        self._extent = extent
        self._work: DeviceWork | None = None
        self._position = 0

    @property
    def work(self) -> DeviceWork:
        """The step's device work, measured at first use."""
        if self._work is None:
            self._work = calibrate(self._backend, self._plan(0), self._params.device_ns)
        return self._work

    def new_run(self, mode_name: str) -> Run:
        """Return a run of the mode without blocks."""
        mode: type[Mode] = plugins.load("modes", mode_name)
        now = datetime.datetime.now(datetime.timezone.utc)
        environment = self._backend.environment()
        return Run(
            id=f"{now:%Y%m%d-%H%M%S}-{self._scenario_name}-{mode_name}",
            scenario=self._scenario_name,
            mode=mode_name,
            backend=self._backend.name,
            created=now.isoformat(timespec="seconds"),
            params=dataclasses.asdict(self._params) | dataclasses.asdict(self._extent),
            groups=self._scenario.groups(self._params),
            memory=mode.memory,
            lag=mode.lag,
            environment=replace(environment, nvtx=Recorder(self._backend.clock_ns).nvtx_listens),
            device_work_ns=self.work.step_ns,
            host_work_ns=self._params.host_work_ns,
            caveats=self._backend.caveats(),
        )

    def run(self, mode_name: str, blocks: int = 1) -> Run:
        """Return a run of the mode with so many blocks."""
        return replace(self.new_run(mode_name), blocks=tuple(self.block(mode_name, index) for index in range(blocks)))

    def block(self, mode_name: str, index: int) -> Block:
        """Run the mode once, from the first warm-up step to the stop, and return what was recorded."""
        mode_type: Callable[..., Mode] = plugins.load("modes", mode_name)
        groups = self._scenario.groups(self._params)
        plan = self._plan(self.work.kernel_ns)
        device = self._backend.open_loop(plan)
        try:
            recorder = Recorder(self._backend.clock_ns)
            recorded = RecordedDevice(device, recorder)
            mode = mode_type(recorded, groups)
            loop = RecordedLoop(self._params, self._backend, recorded, mode, recorder)
            before = self._backend.clock_sample()
            launched = self._run_steps(loop, recorder, plan.max_steps)
            stamps = device.stamps()[:launched]
            samples = (before, self._backend.clock_sample())
        finally:
            device.close()
        reference = reference_stream(
            self._params.seed, self._params.sequences, launched, plan.last_step, self._params.mean_length
        )
        tokens, reads = check_tokens(groups, loop.reads, reference, plan.last_step, launched, not loop.is_running)
        block = Block(
            index=index,
            position=self._position,
            warmup=self._extent.warmup,
            steps=self._extent.steps,
            capture=recorder.capture(_kernel_table(stamps, samples), reads),
            clock=self._backend.clock_info(samples),
            tokens=tokens,
        )
        self._position += 1
        return block

    def _run_steps(self, loop: RecordedLoop, recorder: Recorder, max_steps: int) -> int:
        """Run until the scenario stops or the stamps are full; return the steps launched."""
        step = self._scenario.step
        # A collection of Python's garbage in the middle of a step would be charged to the transfer it interrupts.
        gc.collect()
        gc.disable()
        try:
            while loop.is_running and loop.step < max_steps:
                recorder.begin_step(loop.step)
                step(loop, loop.step)
                recorder.end_step()
                loop.step += 1
        finally:
            gc.enable()
        return loop.step

    def _plan(self, kernel_ns: int) -> LoopPlan:
        params = self._params
        run_ahead = _LAUNCH_QUEUE // (params.kernels + 1) + 1
        return LoopPlan(
            sequences=params.sequences,
            seed=params.seed,
            mean_length=params.mean_length,
            last_step=self._extent.last_step,
            max_steps=self._extent.last_step + 1 + run_ahead,
            kernels=params.kernels,
            kernel_ns=kernel_ns,
        )


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


def abba(blocks: int) -> Iterator[int]:
    """Yield sides 0 and 1 in the order A B B A A B B A ..., `blocks` of each: a drift of the machine cancels."""
    for pair in range(blocks):
        yield from ((0, 1) if pair % 2 == 0 else (1, 0))


def _kernel_table(stamps: np.ndarray[tuple[int, ...], np.dtype[np.int64]], samples: Sequence[ClockSample]) -> Table:
    steps, kernels, _ = stamps.shape
    host = to_host_clock(stamps, samples).reshape(-1, 2)
    return Table.of(
        KERNELS,
        {
            "step": np.repeat(np.arange(steps), kernels),
            "kernel": np.tile(np.arange(kernels), steps),
            "start_ns": host[:, 0],
            "end_ns": host[:, 1],
        },
    )


def _check_memory(params: LoopParams, extent: Extent) -> None:
    steps = extent.last_step + 1
    if steps * (params.kernels + 1) > _MAX_STAMPS:
        raise UsageError(
            f"{steps:,} steps of {params.kernels:,} kernels need {steps * (params.kernels + 1):,} stamps, "
            f"at most {_MAX_STAMPS:,} are kept",
            "lower --steps or --kernels",
        )
    if steps * params.sequences > _MAX_VALUES:
        raise UsageError(
            f"{steps:,} steps of {params.sequences:,} sequences make {steps * params.sequences:,} tokens, "
            f"at most {_MAX_VALUES:,} are kept",
            "lower --steps or --sequences",
        )
