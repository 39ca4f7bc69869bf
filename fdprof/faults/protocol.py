"""What a fault of the hazard laboratory must offer.

A fault stands between a mode and the device and does one thing wrong, as a known failure did; the mode itself stays
right.  What it does is found by analysis/hazards.py from the journal, which knows nothing of faults.
"""

import sys
from typing import Any, ClassVar

from fdprof.backends.protocol import DeviceLoop
from fdprof.model import HazardCode


class Fault:
    """One known failure.  `FAULT` in each file of this folder is a class derived from this one.

    Calls it does not change go to the device as they are.  `shows_in`: a scenario and a mode in which it can do harm.
    `has_acted`: it found something to do wrong in this loop.
    """

    hazard: ClassVar[HazardCode]
    shows_in: ClassVar[tuple[str, str]]
    source: ClassVar[str]

    def __init__(self, device: DeviceLoop) -> None:
        self._device = device
        self.has_acted = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    @classmethod
    def name(cls) -> str:
        """Return the name it is chosen by: that of its file."""
        return sys.modules[cls.__module__].__name__.rsplit(".", 1)[1].replace("_", "-")
