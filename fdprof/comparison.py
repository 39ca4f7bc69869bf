"""The records of a comparison: two sides, what is held against what, and the verdict.

Ratios are candidate / baseline.  No I/O here; what they mean is computed in analysis/.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from fdprof.capture import Inflation
from fdprof.model import GpuState, IntColumn

Field = str | int | float | bool | None
"""What is compared before the times are: one entry of environment or parameters.  None: not known of this side."""

NO_TRACER = "none"

STATISTICS = ("mean", "p50", "p90", "p99")
"""Of the step times, that ratios are given of."""


class Verdict(Enum):
    """What a comparison comes to."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"  # the whole interval lies inside the equivalence bound
    INCONCLUSIVE = "inconclusive"
    NOT_COMPARABLE = "not comparable"  # environment, parameters or quality differ


class WaitChange(Enum):
    """What became of the time that the host was blocked."""

    REMOVED = "removed"  # the step is shorter and the host is blocked less
    MOVED = "moved"  # it left the copies and is found in the fences again
    NEITHER = "neither"


class Outcome(Enum):
    """How a gate ended."""

    PASSED = "passed"
    FAILED = "failed"
    OPEN = "open"  # the interval lies on both sides of the limit, or there is none


@dataclass(frozen=True, slots=True)
class TokenStream:
    """Digests of what the host read, one row a group and step; none for runs that were saved before there were any.

    `decided_by`: what decides which tokens are made.  `last_step` is the last that had to be read.
    """

    decided_by: Mapping[str, Field]
    groups: tuple[str, ...]
    group: IntColumn  # index into `groups`
    value_step: IntColumn
    digest: IntColumn
    last_step: int


@dataclass(frozen=True, slots=True)
class Blocked:
    """Host-blocked time of all counted steps, ns: in copies with the synchronisation behind them, and in fences."""

    copy_ns: int
    fence_ns: int


@dataclass(frozen=True, slots=True, eq=False)  # arrays do not compare to one truth value
class Side:
    """One side of a comparison: a run of a mode or a capture, as far as a comparison needs it.

    Times are ns of counted steps: those behind the warm-up and up to the stop.  `parts_ns` are sums over all of them
    that add up to the sum of the windows: device busy by kind of work, device idle by cause.
    """

    label: str
    source: str  # the backend or the importer
    fields: Mapping[str, Field]
    call: str  # sides of one call had their blocks interleaved; empty: not known
    positions: tuple[int, ...]  # of each block among all of its call
    windows_ns: tuple[IntColumn, ...]  # of each block
    left_out: int  # steps at the beginning of each block, up to its change of level, that are not in `windows_ns`
    parts_ns: Mapping[str, int] | None  # None where there are no device rows
    blocked: Blocked
    means_ns: Mapping[str, float | None]  # columns of the ledger, mean a step
    limit_ns: float | None
    tokens: TokenStream | None  # None: the source has none
    is_right: bool | None  # by the reference; None: nothing to check
    doubts: tuple[str, ...]  # codes of findings that make a capture's numbers doubtful
    gpu: tuple[tuple[GpuState, ...], ...] = ()  # before and after each block
    notes: tuple[str, ...] = ()
    inflation: Inflation | None = None  # of a capture; None: not measured, and of a run there is none

    @property
    def steps_ns(self) -> IntColumn:
        """All windows, block after block."""
        return np.concatenate(self.windows_ns)

    @property
    def is_capture(self) -> bool:
        return self.fields.get("tracer") != NO_TRACER

    def is_of_the_call_of(self, other: "Side") -> bool:
        """Return whether one call recorded both, so that they shared the machine's state."""
        return bool(self.call) and self.call == other.call

    def shares_blocks_with(self, other: "Side") -> bool:
        """Return whether a block of the one call is on both sides."""
        return self.is_of_the_call_of(other) and not set(self.positions).isdisjoint(other.positions)


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A field in which the sides differ; `allowed` by the user."""

    field: str
    baseline: Field
    candidate: Field
    allowed: bool

    @property
    def text(self) -> str:
        """Both values; as they are written in Python where their texts are alike or empty."""
        ours, theirs = ("none" if value is None else str(value) for value in (self.baseline, self.candidate))
        if (ours == theirs and self.baseline != self.candidate) or not ours or not theirs:
            ours, theirs = repr(self.baseline), repr(self.candidate)
        return f"{ours} against {theirs}"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A ratio with its 95 % interval; None where there are too few samples for one."""

    value: float
    interval: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Spread:
    """How the step times of a side vary.  None where they do not, or too few are known."""

    autocorrelation: float | None  # of neighbouring steps, around their block's mean
    block_variance: float | None  # of the means of what is resampled, as a multiple of that of independent steps
    mild: int  # steps beyond Tukey's inner fences
    severe: int  # of them, beyond the outer fences
    blocks: tuple[int, ...]  # numbers of the blocks or batches whose mean is beyond the inner fences


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the times alone say."""

    ratio: Estimate  # of mean step times
    units: tuple[int, int]  # what was resampled on each side: blocks, or batches of a capture's steps
    unit: str  # their name
    interleaved: bool
    self_check: float | None  # rms ratio of what differs by noise alone, 1.003: by 0.3 %
    detectable: float | None  # the smallest ratio above 1 that this comparison would find 4 times out of 5
    verdict: Verdict
    reason: str
    is_inflated: bool = False  # a tracer's inflation exceeds what a verdict or a gate would rest on


@dataclass(frozen=True, slots=True)
class Bridge:
    """From the baseline's mean step to the candidate's, whole ns: `parts` add up to `step_ns`.

    `residual_ns` is what the exact means lack of adding up: 0, or a bug.
    """

    parts: Mapping[str, int]
    step_ns: int
    residual_ns: float


@dataclass(frozen=True, slots=True)
class Moved:
    """Blocked time, mean ns a step, of baseline and candidate, and what became of it (None: not to be said)."""

    change: WaitChange | None
    copy_ns: tuple[float, float]
    fence_ns: tuple[float, float]

    @property
    def left_copies_ns(self) -> float:
        """How much less the host is blocked in copies; below 0 if more."""
        return self.copy_ns[0] - self.copy_ns[1]

    @property
    def removed_ns(self) -> float:
        """How much less the host is blocked in all; below 0 if more."""
        return self.left_copies_ns + self.fence_ns[0] - self.fence_ns[1]

    @property
    def moved_ns(self) -> float:
        """What left the copies and is found in the fences again."""
        return max(min(self.left_copies_ns, self.fence_ns[1] - self.fence_ns[0]), 0.0)


@dataclass(frozen=True, slots=True)
class GateResult:
    """One gate: the option that asked for it, how it ended, and why in words."""

    option: str
    outcome: Outcome
    text: str


@dataclass(frozen=True, slots=True)
class Policy:
    """What the caller wants of a comparison.

    `same_within`: the equivalence bound, 0.005 for ratios from 1 / 1.005 to 1.005.  `allowed`: fields that may differ.
    """

    same_within: float = 0.005
    allowed: frozenset[str] = frozenset()
    fail_if: frozenset[Verdict] = frozenset()
    max_ratio: float | None = None
    max_p99_ratio: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Two sides held against each other.

    Without equal tokens, or with a field that differs and is not allowed to, no times are compared: `judgement` is
    None and `ratios` is empty.
    """

    baseline: Side
    candidate: Side
    policy: Policy
    mismatches: tuple[Mismatch, ...]
    unknown: tuple[str, ...]  # fields known of one side only
    tokens_equal: bool | None  # None: not both sides have tokens that can be compared
    tokens_text: str
    judgement: Judgement | None = None
    step_ns: tuple[Mapping[str, float], Mapping[str, float]] = ({}, {})  # mean, p50, p90 and p99 of each side
    ratios: Mapping[str, Estimate] = field(default_factory=dict)  # of these
    spreads: tuple[Spread, Spread] | None = None
    bridge: Bridge | None = None
    moved: Moved | None = None
    efficiencies: tuple[float | None, float | None] = (None, None)  # limit / mean step
    gain_share: float | None = None  # of what the baseline could gain at most (step - limit)
    gates: tuple[GateResult, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict | None:
        """The verdict; None where tokens differ, because then times decide nothing."""
        if self.tokens_equal is False:
            return None
        return Verdict.NOT_COMPARABLE if self.judgement is None else self.judgement.verdict
