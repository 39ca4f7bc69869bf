# ruff: noqa: SIM300 - the expected value stands first
"""fdprof.hazard_lab: the counts by hand, and every fault and two correct modes on the simulator."""

from collections import Counter

import pytest

from fdprof import hazard_lab, plugins
from fdprof.hazard_lab import Case, CaseCount, DetectorScore, clean_cases, fault_cases, run_case, scores
from fdprof.model import Hazard, HazardCode

EARLY, EVENT, RING = HazardCode.READ_BEFORE_FENCE, HazardCode.WRONG_EVENT, HazardCode.RING_TOO_SHALLOW
SEEDS = range(3)


def _count(expected, runs, **fired):
    """Return the count of a case; `fired` by the names of the codes."""
    case = Case("stop_flag", "async", None if expected is None else "a-fault", expected)
    # By hand, each run reports one code at most.
    counter = Counter({HazardCode[name]: number for name, number in fired.items()})
    return CaseCount(case, runs, counter, reported=counter.total())


# Counts by hand.


def test_a_fault_is_found_where_its_own_hazard_is_reported():
    """Reported in 3 of 5 runs; what else was reported is no find."""
    count = _count(EARLY, 5, READ_BEFORE_FENCE=3, WRONG_EVENT=2)
    assert 3 == count.found
    assert {EVENT: 2} == count.others


def test_a_fault_that_was_not_reported_is_not_found():
    """Another hazard was, in every run."""
    count = _count(EARLY, 5, WRONG_EVENT=5)
    assert 0 == count.found
    assert {EVENT: 5} == count.others


def test_a_correct_case_is_found_where_nothing_is_reported():
    """All of 5 runs; all but the 2 with a report, which is one too many."""
    assert 5 == _count(None, 5).found
    assert {} == _count(None, 5).others
    assert 3 == _count(None, 5, WRONG_EVENT=2).found
    assert {EVENT: 2} == _count(None, 5, WRONG_EVENT=2).others


def test_precision_is_over_what_was_reported_and_recall_over_what_was_there():
    """The detector of early reads: there in 10 runs, reported in 8 of them and in 2 of another fault's."""
    counts = [
        _count(EARLY, 10, READ_BEFORE_FENCE=8),
        _count(EVENT, 10, WRONG_EVENT=10, READ_BEFORE_FENCE=2),
        _count(None, 10),
    ]
    early, event = (next(score for score in scores(counts) if score.code is code) for code in (EARLY, EVENT))
    assert DetectorScore(EARLY, there=10, reported=10, both=8) == early
    assert (0.8, 0.8) == (early.precision, early.recall)  # 8 / (8 + 2) and 8 / 10
    assert (1.0, 1.0) == (event.precision, event.recall)


def test_a_report_in_a_correct_case_costs_precision_only():
    """Reported in all 4 runs that have it and in 1 of a correct mode: 4 / 5 and 4 / 4."""
    counts = [_count(EARLY, 4, READ_BEFORE_FENCE=4), _count(None, 6, READ_BEFORE_FENCE=1)]
    score = next(score for score in scores(counts) if score.code is EARLY)
    assert (0.8, 1.0) == (score.precision, score.recall)


def test_two_cases_of_one_hazard_are_scored_together():
    """1 of 2 and 3 of 3: 4 / 5."""
    counts = [_count(EARLY, 2, READ_BEFORE_FENCE=1), _count(EARLY, 3, READ_BEFORE_FENCE=3)]
    assert 0.8 == next(score for score in scores(counts) if score.code is EARLY).recall


def test_a_score_of_nothing_is_none_and_not_zero():
    """Never reported: no precision.  Never there: no recall.  There and missed: a recall of 0."""
    assert (None, None) == (DetectorScore(RING, 0, 0, 0).precision, DetectorScore(RING, 0, 0, 0).recall)
    assert (None, 0.0) == (DetectorScore(RING, 3, 0, 0).precision, DetectorScore(RING, 3, 0, 0).recall)
    assert (0.0, None) == (DetectorScore(RING, 0, 2, 0).precision, DetectorScore(RING, 0, 2, 0).recall)


def test_every_detector_is_scored_in_the_order_of_the_codes():
    """Also where no case was run."""
    assert [DetectorScore(code, 0, 0, 0) for code in HazardCode] == scores([])


# Cases.


def test_there_is_a_case_for_each_fault_and_a_fault_for_each_hazard():
    """Eleven of each; the mode is a correct one, so that what goes wrong is the fault's."""
    cases = fault_cases()
    assert plugins.names("faults") == [case.fault for case in cases]
    assert set(HazardCode) == {case.expected for case in cases}
    assert not any(plugins.load("modes", case.mode).is_control for case in cases)


def test_every_scenario_is_run_in_every_mode_but_the_negative_control():
    """unfenced is wrong by construction and is no correct case."""
    modes = [mode for mode in plugins.names("modes") if mode != "unfenced"]
    expected = {(scenario, mode) for scenario in plugins.names("scenarios") for mode in modes}
    assert expected == {(case.scenario, case.mode) for case in clean_cases()}
    assert {(None, None)} == {(case.fault, case.expected) for case in clean_cases()}


@pytest.mark.parametrize("case", fault_cases(), ids=lambda case: case.fault)
def test_each_fault_is_found_in_every_run_and_nothing_else_is(sim, case):
    """Three seeds: three finds and no other report."""
    count = run_case(sim, case, SEEDS)
    assert (3, 3, {}) == (count.runs, count.found, count.others)


@pytest.mark.parametrize(
    "case", [Case("stop_flag", "overlap-copy-stream", None, None), Case("insert_tasks", "mapped", None, None)]
)
def test_a_correct_mode_has_no_report_and_right_values_under_every_seed(sim, case):
    """One with a copy stream, one with mapped memory and uploads."""
    count = run_case(sim, case, SEEDS)
    assert (3, 3, {}, 0) == (count.runs, count.found, count.others, count.not_right)


def test_the_negative_control_is_reported_and_reads_wrong_values(sim):
    """unfenced, as if it were correct: an early read in each run, and not right in any."""
    count = run_case(sim, Case("stop_flag", "unfenced", None, None), SEEDS)
    assert (3, 0, {EARLY: 3}, 3) == (count.runs, count.found, count.others, count.not_right)


def test_a_run_with_several_hazards_of_a_code_counts_once(sim, monkeypatch):
    """Two early reads and a wrong event in each of three runs."""
    hazards = tuple(Hazard(code, 0, None, False) for code in (EARLY, EARLY, EVENT))
    monkeypatch.setattr(hazard_lab, "find_hazards", lambda block, groups: hazards)
    count = run_case(sim, Case("stop_flag", "async", None, None), SEEDS)
    assert {EARLY: 3, EVENT: 3} == count.fired
    assert 0 == count.found


def test_a_correct_case_is_not_found_in_any_run_with_a_report(sim, monkeypatch):
    """An early read in one run, a wrong event in another, nothing in the third: nothing was reported in 1 of 3."""
    by_run = iter([EARLY, EVENT, None])

    def report(block, groups):
        code = next(by_run)
        return () if code is None else (Hazard(code, 0, None, False),)

    monkeypatch.setattr(hazard_lab, "find_hazards", report)
    assert 1 == run_case(sim, Case("stop_flag", "async", None, None), SEEDS).found


class _Disturbed:
    """A simulator that tells how it was disturbed."""

    def __init__(self, sim, fails_at=None):
        self._sim, self._fails_at = sim, fails_at
        self.seeds = []

    def __getattr__(self, name):
        return getattr(self._sim, name)

    def disturb(self, seed):
        self.seeds.append(seed)
        if seed is not None and seed == self._fails_at:
            raise KeyboardInterrupt
        self._sim.disturb(seed)


def test_each_seed_disturbs_one_run_and_none_lasts(sim):
    """Seeds 5 and 9, then no longer; said when it is done."""
    backend, said = _Disturbed(sim), []
    run_case(backend, Case("stop_flag", "async", "wrong-event", EVENT), [5, 9], said.append)
    assert [5, 9, None] == backend.seeds
    assert ["wrong-event in async, stop_flag: 2 runs"] == said


def test_a_case_that_is_broken_off_leaves_nothing_disturbed(sim):
    """Interrupted before its second run."""
    backend = _Disturbed(sim, fails_at=9)
    with pytest.raises(KeyboardInterrupt):
        run_case(backend, Case("stop_flag", "async", None, None), [5, 9, 11])
    assert [5, 9, None] == backend.seeds
