"""fdprof.calibration on the simulator's h200 profile: only its gaps and its update count, not what launches cost."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fdprof.backends.protocol import LoopPlan
from fdprof.backends.sim import SimBackend
from fdprof.calibration import calibrate, work_of
from fdprof.errors import UsageError
from fdprof.model import DeviceWork
from fdprof.params import LoopParams
from fdprof.profiles.profile import load_profile
from fdprof.tokens import StreamSpec

CARD = load_profile("h200").card
GAP, UPDATE, PREPARE = CARD.kernel_gap_ns, CARD.update_ns, CARD.prepare_ns


def _plan(kernels):
    stream = StreamSpec(seed=0, sequences=2, mean_length=8, last_step=9)
    return LoopPlan(stream, (), max_steps=10, kernels=kernels, kernel_ns=np.zeros(10, dtype=np.int64))


@pytest.mark.parametrize("kernels", [1, 20, 298, 299, 1000])
def test_the_step_takes_exactly_the_time_asked_for(sim, kernels):
    """A target that whole kernels of 700 ns fill is met exactly, also beyond what fits the launch queue."""
    # kernels x 700 + update + one gap a launch; more than 298 kernels are measured as 298 and scaled.
    target = kernels * 700 + UPDATE + (kernels + 1) * GAP
    assert DeviceWork(kernel_ns=700, step_ns=target) == calibrate(sim, _plan(kernels), False, target)


def test_the_pre_processing_kernel_is_part_of_the_device_work(sim):
    """With it a step has one kernel and one gap more."""
    target = 20 * 700 + UPDATE + PREPARE + 22 * GAP
    assert DeviceWork(kernel_ns=700, step_ns=target) == calibrate(sim, _plan(20), True, target)


def test_the_default_step_of_a_millisecond_is_exact(sim):
    """What is left beside the update and 21 gaps is shared by 20 kernels, in whole ns."""
    work = calibrate(sim, _plan(20), False, 1_000_000)
    assert round((1_000_000 - UPDATE - 21 * GAP) / 20) == work.kernel_ns
    assert abs(work.step_ns - 1_000_000) <= 10


@pytest.mark.parametrize("kernels", [20, 1000])
def test_more_kernels_than_fit_get_no_time_and_the_step_is_longer(sim, kernels):
    """Gaps and update alone exceed a target of 20 µs: the kernels get 0 and the real step is told."""
    expected = UPDATE + (kernels + 1) * GAP
    assert expected > 20_000
    assert DeviceWork(0, expected) == calibrate(sim, _plan(kernels), False, 20_000)


@given(st.integers(1, 40), st.integers(100_000, 5_000_000))
@settings(deadline=None, max_examples=40)
def test_any_target_is_met_within_half_a_ns_a_kernel(kernels, target):
    """Kernels last whole ns, so the step misses its target by at most kernels / 2, and step_ns says by how much."""
    work = calibrate(SimBackend(30), _plan(kernels), False, target)
    assert kernels * work.kernel_ns + UPDATE + (kernels + 1) * GAP == work.step_ns
    assert 2 * abs(work.step_ns - target) <= kernels


# The work of a saved run

PARAMS = LoopParams(kernels=5, device_us=300)


@pytest.fixture
def run(make_session):
    """A run of `stop_flag` that calibrated: 5 kernels, 300 us."""
    return make_session(kernels=5, device_us=300).new_run("async")


def test_the_work_of_a_run_of_the_same_loop_on_the_same_device_is_taken(run, sim):
    """Whatever its mode and its number of steps."""
    expected = calibrate(sim, _plan(5), False, 300_000)
    assert expected == run.work == work_of(run, "stop_flag", PARAMS, sim)
    assert expected == work_of(replace(run, mode="sync", params={**run.params, "steps": 7}), "stop_flag", PARAMS, sim)


@pytest.mark.parametrize(
    ("name", "changes", "saved"),
    [
        ("scenario", {"scenario": "logprobs"}, "'logprobs', here it is 'stop_flag'"),
        ("backend", {"backend": "paddle"}, "'paddle', here it is 'sim'"),
        ("kernels", {"params": {"kernels": 20}}, "20, here it is 5"),
        ("launch", {"params": {"launch": "graph"}}, "'graph', here it is 'kernels'"),
        ("device_us", {"params": {"device_us": 200.0}}, "200.0, here it is 300"),
        ("sequences", {"params": {"sequences": 8}}, "8, here it is 64"),
        ("seed", {"params": {"seed": None}}, "None, here it is 0"),
        ("gpu", {"environment": {"gpu": "NVIDIA H100"}}, "'NVIDIA H100', here it is 'NVIDIA H200 (simulated)'"),
        ("driver", {"environment": {"driver": "550.1"}}, "'550.1', here it is None"),
        ("profile", {"environment": {"profile": "b200"}}, "'b200', here it is 'h200'"),
    ],
)
def test_the_work_of_another_loop_or_device_is_refused(run, sim, name, changes, saved):
    """With what differs, first found; kernels of the right length there are of the wrong one here."""
    environment = replace(run.environment, **changes.pop("environment", {}))
    params = {**run.params, **changes.pop("params", {})}
    other = replace(run, environment=environment, params=params, **changes)
    with pytest.raises(UsageError) as raised:
        work_of(other, "stop_flag", PARAMS, sim)
    assert f"--work-of {run.id}: its {name} is {saved}" == str(raised.value)
    assert "--work-of" in raised.value.hint


def test_a_run_that_does_not_say_what_its_kernels_were_asked_for_is_refused(run, sim):
    """As those that were saved before that was kept."""
    with pytest.raises(UsageError, match="what its kernels were asked for was not saved with it"):
        work_of(replace(run, work=None), "stop_flag", PARAMS, sim)
