"""Pinned, non-blocking copies with one event after the last, waited for in save_output of the same step (#6176)."""

from fdprof.modes.protocol import Fenced


class Async(Fenced):
    """Host work between the copies and the fence overlaps the device; what comes after the fence does not."""

    fence = "event, waited for before the read of the same step"
    lag = 0
    source = "FastDeploy #6176"


MODE = Async
