"""Finds how long each kernel must run so that a step's device work takes the time asked for.

Device work of a step means: its kernels and the device's own gaps between them, queued back to back with nothing else
on the device.  It is measured behind a latch, so that the host's launches play no part.

A tracer makes the gaps longer.  A process that calibrates under one makes its kernels shorter by as much, and so hides
what the tracer costs the device.  Where a traced loop is held against a bare one, both run what was calibrated bare:
`work_of` takes it from a saved run.
"""

import dataclasses
from dataclasses import replace

import numpy as np

from fdprof.backends.protocol import Backend, LoopPlan
from fdprof.errors import UsageError
from fdprof.model import DeviceWork, Run
from fdprof.params import LoopParams

_QUEUED_LAUNCHES = 600
"""Launches queued behind the latch: well below the 1,024 at which CUDA's launch queue blocks the host."""

_STEPS = 6
_ROUNDS = 3

_DEVICE = ("gpu", "driver", "profile")
"""What of an environment decides how long gaps are."""


def calibrate(backend: Backend, plan: LoopPlan, has_prepare: bool, target_ns: int) -> DeviceWork:
    """Return the kernel time at which a step of `plan` takes `target_ns` of device work.

    Where gaps, update and prepare alone take longer, the kernels get 0 ns and `step_ns` says what the step really
    takes.
    """
    kernel_ns = target_ns // plan.kernels
    for _ in range(_ROUNDS):
        step_ns = _queued_step_ns(backend, plan, has_prepare, kernel_ns)
        correction = round((target_ns - step_ns) / plan.kernels)
        if kernel_ns + correction < 0:
            kernel_ns = 0
        elif correction:
            kernel_ns += correction
        else:
            return DeviceWork(kernel_ns, step_ns)
    return DeviceWork(kernel_ns, _queued_step_ns(backend, plan, has_prepare, kernel_ns))


def work_of(run: Run, scenario: str, params: LoopParams, backend: Backend) -> DeviceWork:
    """Return what the kernels of a saved run were asked for; UsageError unless it is of this loop on this device."""
    if run.work is None:
        raise UsageError(
            f"--work-of {run.id}: what its kernels were asked for was not saved with it", "record that run again"
        )
    environment = backend.environment()
    here = {"scenario": scenario, "backend": backend.name, **dataclasses.asdict(params)}
    here |= {name: getattr(environment, name) for name in _DEVICE}
    saved = {"scenario": run.scenario, "backend": run.backend, **run.params}
    saved |= {name: getattr(run.environment, name) for name in _DEVICE}
    for name, value in here.items():
        if saved.get(name) != value:
            raise UsageError(
                f"--work-of {run.id}: its {name} is {saved.get(name)!r}, here it is {value!r}",
                "name a run of this scenario with these parameters on this device, or leave --work-of out to calibrate",
            )
    return run.work


def _queued_step_ns(backend: Backend, plan: LoopPlan, has_prepare: bool, kernel_ns: int) -> int:
    """Return the period of a step whose work was all queued before it started.

    A step of more kernels than the launch queue holds is measured with fewer and scaled by the kernels' own period.
    """
    kernels = min(plan.kernels, _QUEUED_LAUNCHES // 2 - 2)
    steps = min(_STEPS, _QUEUED_LAUNCHES // (kernels + 2))
    times = np.full(steps, kernel_ns, dtype=np.int64)
    loop = backend.open_loop(replace(plan, kernels=kernels, max_steps=steps, kernel_ns=times))
    try:
        loop.hold()
        for _ in range(steps):
            if has_prepare:
                loop.prepare()
            loop.forward()
            loop.update()
        loop.release()
        stamps = loop.stamps()
    finally:
        loop.close()
    first_starts = stamps[:, 0, 0]
    period = float(np.median(np.diff(first_starts)))
    if plan.kernels > kernels:
        kernel_period = float(np.median(np.diff(stamps[:, :kernels, 0], axis=1)))
        period += (plan.kernels - kernels) * kernel_period
    return round(period)
