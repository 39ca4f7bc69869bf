"""What fdprof found in a run or a capture, with its numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from fdprof.capture import Evidence


class FindingCode(Enum):
    """The findings that a capture can show; the value is the code in JSON."""

    PAGEABLE_DESTINATION = "pageable-destination"
    BLOCKING_COPY = "blocking-copy"
    FENCE_AFTER_COPY = "fence-straight-after-copy"
    HIDDEN_SYNC = "hidden-sync"
    SEVERAL_WAITS = "several-waits"
    BLOCKING_UPLOAD = "blocking-upload"
    NO_FENCE = "no-fence"
    EVENT_RECORDED_AGAIN = "event-recorded-again"
    ALLOCATION_IN_STEP = "allocation-in-step"
    DEFAULT_STREAM = "copy-on-default-stream"
    CROSS_STREAM_WAIT = "cross-stream-wait"
    SPIN_WAIT = "spin-wait"
    LAUNCH_BOUND = "launch-bound"
    HOST_BOUND = "host-bound"
    DEVICE_BOUND = "device-bound"
    NO_DEVICE_ROWS = "no-device-rows"
    CAPTURE_CUT = "capture-cut"
    PROFILER_INFLATION = "profiler-inflation"
    STEPS_INFERRED = "steps-inferred"


DOUBTS = (
    FindingCode.NO_DEVICE_ROWS,
    FindingCode.CAPTURE_CUT,
    FindingCode.STEPS_INFERRED,
    FindingCode.PROFILER_INFLATION,
)
"""Findings about the capture, which make the others doubtful."""


MOST_STEPS = 3
"""So many steps a finding names at most."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One statement: what was seen, how sure that is, what it costs a step, and what to do.

    `evidence` holds the numbers by name, ns, counts or shares as the name says.  `cost_ns_per_step` is what the step
    could be shorter by at most, None where the finding is about something else than time.  `subject` names what the
    advice is about, for where the text does not stand beside it.  `steps` are positions among the analysed steps: of at
    most MOST_STEPS that show it most plainly, the plainest first; none where it is about no step in particular.
    """

    code: FindingCode
    text: str
    certainty: Evidence
    cost_ns_per_step: float | None
    evidence: Mapping[str, float | int | str | None]
    advice: str
    subject: str = ""
    steps: tuple[int, ...] = ()
