"""Puts device stamps on the host clock, with a stated error."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fdprof.backends.protocol import ClockSample


def to_host_clock(stamps_ns: npt.NDArray[np.int64], samples: Sequence[ClockSample]) -> npt.NDArray[np.int64]:
    """Return device stamps as host times in ns.

    Between two alignments the offset is interpolated: an H200's %globaltimer drifts 2.5 to 5 µs a second against
    CLOCK_MONOTONIC.  With one alignment the offset is constant.
    """
    first, last = samples[0], samples[-1]
    offset_first = first.host_ns - first.device_ns
    offset_last = last.host_ns - last.device_ns
    span = last.device_ns - first.device_ns
    if span <= 0:
        return stamps_ns + offset_first
    # Small differences only go through floating point: absolute ns do not fit a double's 53 bits for long.
    share = (stamps_ns - first.device_ns) / span
    moved = np.rint(share * (offset_last - offset_first)).astype(np.int64)
    return np.asarray(stamps_ns + offset_first + moved, dtype=np.int64)


def drift_ppm(samples: Sequence[ClockSample]) -> float | None:
    """Return how much faster the host clock ran than the device's, in parts per million; None with one alignment."""
    first, last = samples[0], samples[-1]
    span = last.device_ns - first.device_ns
    if span <= 0:
        return None
    return ((last.host_ns - first.host_ns) - span) / span * 1e6
