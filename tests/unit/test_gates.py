# ruff: noqa: SIM300 - the expected value stands first
"""fdprof.analysis.gates: passed, failed, or open."""

from dataclasses import replace

import pytest

from fdprof.analysis.gates import gates_of
from fdprof.analysis.verdict import judge
from fdprof.comparison import Estimate, Outcome, Policy, Verdict


@pytest.fixture
def judgement(build):
    return judge(build.a_side([1]), build.a_side([1]), 0.01)


def _outcomes(judgement, policy, **ratios):
    return [(gate.option, gate.outcome) for gate in gates_of(policy, judgement, ratios)]


@pytest.mark.parametrize(
    ("verdict", "outcome"),
    [
        (Verdict.SLOWER, Outcome.FAILED),
        (Verdict.FASTER, Outcome.PASSED),
        (Verdict.SAME, Outcome.PASSED),
        (Verdict.INCONCLUSIVE, Outcome.OPEN),
    ],
)
def test_a_gate_on_a_verdict_fails_on_it_and_is_open_where_there_is_none(judgement, verdict, outcome):
    """--fail-if slower."""
    policy = Policy(fail_if=frozenset({Verdict.SLOWER}))
    assert [("--fail-if slower", outcome)] == _outcomes(replace(judgement, verdict=verdict), policy)


def test_a_gate_on_inconclusive_fails_on_it(judgement):
    """Then nothing is open."""
    policy = Policy(fail_if=frozenset({Verdict.INCONCLUSIVE}))
    got = _outcomes(replace(judgement, verdict=Verdict.INCONCLUSIVE), policy)
    assert [("--fail-if inconclusive", Outcome.FAILED)] == got


@pytest.mark.parametrize(
    ("interval", "outcome"),
    [
        ((0.95, 1.02), Outcome.PASSED),  # the end on the limit is allowed
        ((0.95, 1.021), Outcome.OPEN),
        ((1.02, 1.05), Outcome.OPEN),
        ((1.021, 1.05), Outcome.FAILED),
        (None, Outcome.OPEN),
    ],
)
@pytest.mark.parametrize("option", ["max_ratio", "max_p99_ratio"])
def test_a_limit_is_held_against_the_whole_interval(judgement, option, interval, outcome):
    """1.02: passed where no part of the interval is above it, failed where all is."""
    ratios = {name: Estimate(1.0, None) for name in ("mean", "p99")}
    ratios["mean" if option == "max_ratio" else "p99"] = Estimate(1.0, interval)
    shown = "--" + option.replace("_", "-") + " 1.02"
    assert [(shown, outcome)] == _outcomes(judgement, Policy(**{option: 1.02}), **ratios)


def test_where_times_are_not_compared_every_gate_is_open(judgement):
    """Wrong tokens or sides that are not comparable: what was asked for is still told."""
    policy = Policy(fail_if=frozenset({Verdict.SLOWER}), max_ratio=1.02)
    expected = [("--fail-if slower", Outcome.OPEN), ("--max-ratio 1.02", Outcome.OPEN)]
    assert expected == _outcomes(None, policy)


def test_without_gates_there_are_no_results(judgement):
    """The usual case."""
    assert [] == _outcomes(judgement, Policy())
