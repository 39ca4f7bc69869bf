# ruff: noqa: SIM300 - the expected value stands first
"""fdprof.clock: device stamps on the host clock, by hand."""

import numpy as np
import pytest

from fdprof.backends.protocol import ClockSample
from fdprof.clock import drift_ppm, to_host_clock


def test_one_alignment_gives_a_constant_offset():
    """Device 200 is host 1,200, so every stamp moves by 1,000."""
    sample = ClockSample(host_ns=1200, device_ns=200, error_ns=0)
    assert [1000, 1007] == to_host_clock(np.array([0, 7]), [sample]).tolist()
    assert drift_ppm([sample]) is None


def test_two_alignments_at_one_device_time_give_the_first_offset():
    """With no span between the samples nothing can be interpolated."""
    samples = [ClockSample(1200, 200, 0), ClockSample(1300, 200, 0)]
    assert [1000] == to_host_clock(np.array([0]), samples).tolist()
    assert drift_ppm(samples) is None


def test_the_offset_is_interpolated_between_two_alignments():
    """The offset grows from 1,000 at device 0 to 1,100 at device 1,000, and on at that rate outside."""
    # device 0 -> +1000; 500 -> +1050; 1000 -> +1100; 2000 -> +1200.
    samples = [ClockSample(1000, 0, 0), ClockSample(2100, 1000, 0)]
    assert [1000, 1550, 2100, 3200] == to_host_clock(np.array([0, 500, 1000, 2000]), samples).tolist()


def test_drift_is_how_much_faster_the_host_clock_ran():
    """Host 1,000,005 ns over device 1,000,000 ns is 5 parts per million; the other way round is negative."""
    assert 5.0 == pytest.approx(drift_ppm([ClockSample(0, 0, 0), ClockSample(1_000_005, 1_000_000, 0)]))
    assert -5.0 == pytest.approx(drift_ppm([ClockSample(0, 0, 0), ClockSample(999_995, 1_000_000, 0)]))


def test_absolute_times_stay_exact():
    """Stamps near 1.7e18 ns keep every ns: a double would round them to 256."""
    # Offset -1.7e18 + 1 at the first sample, 4 ns more at the second, 2 ns more half-way.
    epoch = 1_700_000_000_000_000_000
    samples = [ClockSample(1, epoch, 0), ClockSample(1_000_005, epoch + 1_000_000, 0)]
    got = to_host_clock(np.array([epoch, epoch + 1, epoch + 500_000, epoch + 1_000_000]), samples)
    assert [1, 2, 500_003, 1_000_005] == got.tolist()


def test_the_shape_of_the_stamps_is_kept():
    """[steps, kernels, 2] in, [steps, kernels, 2] out."""
    stamps = np.zeros((3, 2, 2), dtype=np.int64)
    got = to_host_clock(stamps, [ClockSample(10, 0, 0), ClockSample(20, 10, 0)])
    assert ((3, 2, 2), np.int64) == (got.shape, got.dtype)
