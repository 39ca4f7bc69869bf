"""fdprof.calibration on the simulator's h200 profile: only its gaps and its update count, not what launches cost."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fdprof.backends.protocol import LoopPlan
from fdprof.backends.sim import SimBackend
from fdprof.calibration import DeviceWork, calibrate
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
