"""What a span of time means to a reader: the few meanings that every report colours alike.

Imports nothing, so that reports and analysis agree on it and neither needs the other.
"""

from enum import Enum


class Meaning(Enum):
    """What happens in a span of time, or why nothing does."""

    BUSY = "busy"  # the device computes: kernels, memsets, graphs
    COPY = "copy"  # the device moves bytes; of a step's parts: it does nothing else
    QUEUED = "queued"  # the device starts work that was issued already
    BLOCKED = "blocked"  # the host waits for the device
    ALLOCATE = "allocate"  # the host allocates, page-locks or frees memory
    LAUNCH = "launch"  # the host is inside another call
    HOST = "host"  # the host runs its own code
    NOT_CAPTURED = "not captured"  # the device must have worked, and its rows are missing


_HOST_PREFIX = "host:"
_BUSY_PREFIX = "busy:"
_COPY_ALONE = "busy:copy alone"


def meaning_of_part(name: str) -> Meaning:
    """Return the meaning of a part of a step: a cause of idle time, 'host:forward', 'busy:compute', 'busy:copy alone'.

    A range's own name stands behind 'host:' and decides nothing.  ValueError for a name that is no part.
    """
    if name.startswith(_HOST_PREFIX):
        return Meaning.HOST
    if name == _COPY_ALONE:
        return Meaning.COPY
    return Meaning.BUSY if name.startswith(_BUSY_PREFIX) else Meaning(name)
