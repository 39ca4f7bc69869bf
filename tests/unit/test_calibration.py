"""fdprof.calibration on the simulator's h200 profile: gap 1,540, update 1,280, whatever the launches cost."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fdprof.backends.protocol import LoopPlan
from fdprof.backends.sim import SimBackend
from fdprof.calibration import DeviceWork, calibrate

GAP, UPDATE = 1540, 1280


def _plan(kernels):
    return LoopPlan(sequences=2, seed=0, mean_length=8, last_step=9, max_steps=10, kernels=kernels, kernel_ns=0)


@pytest.mark.parametrize("kernels", [1, 20, 299, 300, 1000])
def test_the_step_takes_exactly_the_time_asked_for(sim, kernels):
    """A target that whole kernels of 700 ns fill is met exactly, also beyond what fits the launch queue."""
    # kernels x 700 + update + one gap a launch; more than 299 kernels are measured as 299 and scaled.
    target = kernels * 700 + UPDATE + (kernels + 1) * GAP
    assert DeviceWork(kernel_ns=700, step_ns=target) == calibrate(sim, _plan(kernels), target)


def test_the_default_step_of_a_millisecond_is_exact(sim):
    """20 kernels of 48,319 ns: (1,000,000 - 1,280 - 21 x 1,540) / 20."""
    assert DeviceWork(48_319, 1_000_000) == calibrate(sim, _plan(20), 1_000_000)


@pytest.mark.parametrize("kernels", [20, 1000])
def test_more_kernels_than_fit_get_no_time_and_the_step_is_longer(sim, kernels):
    """Gaps and update alone exceed a target of 20 µs: the kernels get 0 and the real step is told."""
    # 20 kernels: 1,280 + 21 x 1,540 = 33,620; 1000: 1,280 + 1001 x 1,540 = 1,542,820.
    expected = {20: 33_620, 1000: 1_542_820}[kernels]
    assert DeviceWork(0, expected) == calibrate(sim, _plan(kernels), 20_000)


@given(st.integers(1, 40), st.integers(100_000, 5_000_000))
@settings(deadline=None, max_examples=40)
def test_any_target_is_met_within_half_a_ns_a_kernel(kernels, target):
    """Kernels last whole ns, so the step misses its target by at most kernels / 2, and step_ns says by how much."""
    work = calibrate(SimBackend(30), _plan(kernels), target)
    assert kernels * work.kernel_ns + UPDATE + (kernels + 1) * GAP == work.step_ns
    assert 2 * abs(work.step_ns - target) <= kernels
