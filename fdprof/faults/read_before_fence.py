"""The host reads without waiting for the event it recorded."""

from fdprof.backends.protocol import Event, Publication
from fdprof.faults.protocol import Fault
from fdprof.model import HazardCode


class ReadBeforeFence(Fault):
    """Every fence is forgotten: waits return at once."""

    hazard = HazardCode.READ_BEFORE_FENCE
    shows_in = ("stop_flag", "async")
    source = "FastDeploy #7221, vLLM #36942, #36013"

    def wait(self, event: Event) -> None:
        """Do not wait."""
        self.has_acted = True

    def poll(self, publication: Publication, step: int) -> None:
        """Do not wait."""
        self.has_acted = True


FAULT = ReadBeforeFence
