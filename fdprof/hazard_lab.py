"""The hazard laboratory: every fault and every correct mode, many times, and what the detectors said.

A detector is right when it reports the hazard of the fault that was there, and nothing else.  It sees the journal and
the values, not the fault.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fdprof import plugins
from fdprof.analysis.hazards import find_hazards
from fdprof.backends.protocol import Backend
from fdprof.model import HazardCode
from fdprof.params import Extent, LoopParams
from fdprof.session import Session

_EXTENT = {"steps": 6, "warmup": 2}
# Small loops in which everything happens within a few steps; the device is slower than the host, so that copies are
# still in flight when a fault reads.
_COMMON = {
    "sequences": 4,
    "device_us": 60.0,
    "kernels": 2,
    "schedule_us": 8.0,
    "save_output_us": 4.0,
    "mean_length": 5,
}
_OWN: Mapping[str, Mapping[str, int | str]] = {
    "insert_tasks": {"insert_every": 2, "prompt_tokens": 16, "sampling_params": 2},
    "logprobs": {"top_logprobs": 2, "pinned_alloc": "per-step"},
    "speculative": {"draft_tokens": 2},
    # Few enough tokens a request that the rows do not all wait for a block in the same step.
    "token_count": {"kv_block_tokens": 2, "mean_length": 4, "sequences": 6},
}


@dataclass(frozen=True, slots=True)
class Case:
    """One scenario in one mode, with a fault or (None) without."""

    scenario: str
    mode: str
    fault: str | None
    expected: HazardCode | None


@dataclass(slots=True)
class CaseCount:
    """How often a case was run, in how many runs each detector fired, and in how many a wrong value was read."""

    case: Case
    runs: int = 0
    fired: Counter[HazardCode] = field(default_factory=Counter)
    reported: int = 0  # runs in which any detector fired
    not_right: int = 0
    failed_seed: int | None = None  # the first in which the expected hazard was missed, or anything else reported

    @property
    def found(self) -> int:
        """Runs in which the expected hazard was reported; of a case without a fault, in which nothing was."""
        if self.case.expected is None:
            return self.runs - self.reported
        return self.fired[self.case.expected]

    @property
    def others(self) -> Mapping[HazardCode, int]:
        """Runs in which a hazard was reported that the case does not have."""
        return {code: count for code, count in self.fired.items() if code is not self.case.expected}


@dataclass(frozen=True, slots=True)
class DetectorScore:
    """A detector over all cases: in how many runs its hazard was there, was reported, and was both.

    None where the denominator is 0.
    """

    code: HazardCode
    there: int
    reported: int
    both: int

    @property
    def precision(self) -> float | None:
        return self.both / self.reported if self.reported else None

    @property
    def recall(self) -> float | None:
        return self.both / self.there if self.there else None


def fault_cases() -> list[Case]:
    """Return a case for each fault, where it can do harm."""
    cases = []
    for name in plugins.names("faults"):
        fault = plugins.load("faults", name)
        scenario, mode = fault.shows_in
        cases.append(Case(scenario, mode, name, fault.hazard))
    return cases


def clean_cases() -> list[Case]:
    """Return every scenario in every correct mode."""
    modes = [mode for mode in plugins.names("modes") if not plugins.load("modes", mode).is_control]
    return [Case(scenario, mode, None, None) for scenario in plugins.names("scenarios") for mode in modes]


def run_case(
    backend: Backend, case: Case, seeds: Iterable[int], progress: Callable[[str], None] = lambda text: None
) -> CaseCount:
    """Run the case once for each seed, which disturbs the timing on a backend that can be disturbed."""
    params_type: type[LoopParams] = plugins.load("scenarios", case.scenario).params_type
    params = params_type(**{**_COMMON, **_OWN.get(case.scenario, {})})  # type: ignore[arg-type]
    session = Session(backend, case.scenario, params, Extent(**_EXTENT), case.fault, audit=True)
    groups = session.new_run(case.mode).groups  # measures the device work, undisturbed
    count = CaseCount(case)
    try:
        for seed in seeds:
            backend.disturb(seed)
            block = session.block(case.mode, count.runs)
            fired = {hazard.code for hazard in find_hazards(block, groups)}
            count.fired.update(fired)
            count.reported += bool(fired)
            expected = set() if case.expected is None else {case.expected}
            is_bad = fired != expected or (case.fault is None and not block.tokens.is_right)
            if is_bad and count.failed_seed is None:
                count.failed_seed = seed
            count.not_right += not block.tokens.is_right
            count.runs += 1
    finally:
        backend.disturb(None)
    progress(f"{case.fault or 'no fault'} in {case.mode}, {case.scenario}: {count.runs} runs")
    return count


def scores(counts: Sequence[CaseCount]) -> list[DetectorScore]:
    """Return precision and recall of each detector over all the runs."""
    return [
        DetectorScore(
            code,
            there=sum(count.runs for count in counts if count.case.expected is code),
            reported=sum(count.fired[code] for count in counts),
            both=sum(count.fired[code] for count in counts if count.case.expected is code),
        )
        for code in HazardCode
    ]
