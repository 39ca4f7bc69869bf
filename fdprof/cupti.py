"""What CUPTI's numbers mean in a capture.  Source: cupti_activity.h."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fdprof.capture import CopyDirection, HostSide
from fdprof.model import IntColumn

NON_BLOCKING = 2  # CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NON_BLOCKING
NO_ID = 0xFFFFFFFF
"""CUPTI's "none" of a stream or event id."""

# CUPTI's CUpti_ActivityMemcpyKind and CUpti_ActivityMemoryKind.
DIRECTION_OF = {
    1: CopyDirection.TO_DEVICE,
    2: CopyDirection.TO_HOST,
    3: CopyDirection.TO_DEVICE,
    4: CopyDirection.TO_HOST,
    5: CopyDirection.ON_DEVICE,
    6: CopyDirection.ON_DEVICE,
    7: CopyDirection.ON_DEVICE,
    8: CopyDirection.ON_DEVICE,
    9: CopyDirection.ON_HOST,
    10: CopyDirection.BETWEEN_DEVICES,
}
HOST_SIDE_OF = {1: HostSide.PAGEABLE, 2: HostSide.PINNED, 5: HostSide.MANAGED, 7: HostSide.MANAGED}

COPY_NAMES = {
    CopyDirection.UNKNOWN: "copy",
    CopyDirection.TO_HOST: "copy device to host",
    CopyDirection.TO_DEVICE: "copy host to device",
    CopyDirection.ON_DEVICE: "copy on the device",
    CopyDirection.BETWEEN_DEVICES: "copy between devices",
    CopyDirection.ON_HOST: "copy on the host",
}


def numbered_as(column: IntColumn, known: Mapping[int, int]) -> npt.NDArray[np.int8]:
    """Return what each value stands for, 0 for one that is not known."""
    result = np.zeros(len(column), dtype=np.int8)
    for value, meaning in known.items():
        result[column == value] = int(meaning)
    return result
