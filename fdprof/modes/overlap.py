"""The fence of step k is waited for in step k+1, so that the host's whole step overlaps the device (#6259)."""

from fdprof.modes.protocol import Fenced


class Overlap(Fenced):
    """A ring of buffers, each with its event; one slot is being filled while the one before it is read."""

    fence = "event, waited for one step later"
    lag = 1
    source = "FastDeploy #6259"


MODE = Overlap
