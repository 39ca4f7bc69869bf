# ruff: noqa: SIM300 - the expected value stands first
"""A capture's measured inflation: in comparisons, gates, findings and every report."""

import json

import pytest
from fdprof.reports.protocol import ComparisonResult

from fdprof import plugins
from fdprof.analysis.capture_result import analyze
from fdprof.analysis.compare import compare
from fdprof.analysis.sides import side_of_capture
from fdprof.analysis.steps import Choice
from fdprof.capture import Evidence, Inflation
from fdprof.cli.compare import _require
from fdprof.comparison import Outcome, Policy, Verdict
from fdprof.errors import Inconclusive
from fdprof.finding import FindingCode

MEASURED = Inflation(1.25, (1.2, 1.3), "6 rounds")
UNMEASURED = "was not measured: `fdprof capture --measure-inflation`"
LENGTH = 200
KERNEL = {"calls": [("cudaLaunchKernel", 10, 20)], "work": [("kernel", 20, 120, 0)]}


def _result(build, length=LENGTH, inflation=None, path="capture", **more):
    return analyze(build.a_loop(40, length, inflation=inflation, **KERNEL, **more), path, Choice())


def _compared(build, length, ours=None, theirs=None, **policy):
    results = [_result(build, *side) for side in ((LENGTH, ours, "before"), (length, theirs, "after"))]
    sides = [side_of_capture(result, 40, 0) for result in results]
    return ComparisonResult(compare(*sides, Policy(**policy)), *results)


def _inflation_notes(comparison):
    return [note for note in comparison.notes if "inflation" in note]


def test_captures_without_a_measured_inflation_keep_their_verdict_and_say_so_once(build):
    """Both, one, and neither: one note for what was not measured."""
    got = _compared(build, 300).comparison
    assert Verdict.SLOWER is got.verdict
    assert [f"the inflation of these captures {UNMEASURED}"] == _inflation_notes(got)
    got = _compared(build, 300, MEASURED).comparison
    assert Verdict.SLOWER is got.verdict
    assert [
        "inflation of before: its tracer makes a step 1.250 times as long (95 % interval 1.200 to 1.300); 6 rounds",
        f"the inflation of after {UNMEASURED}",
    ] == _inflation_notes(got)


def test_runs_get_no_note(build):
    """They have no tracer."""
    got = compare(build.a_side([100] * 9), build.a_side([100] * 9), Policy())
    assert [] == _inflation_notes(got)


def test_an_effect_below_the_inflation_ends_with_exit_3(build):
    """250 µs to 200 µs are 25 %, the inflation may be 30 %."""
    result = _compared(build, 250, MEASURED, MEASURED)
    assert Verdict.INCONCLUSIVE is result.comparison.verdict
    with pytest.raises(Inconclusive, match=r"by 30\.0 %.*more than the 25\.0 %"):
        _require(result.comparison)
    assert None is result.comparison.moved.change or "neither" == result.comparison.moved.change.value


def test_a_gate_on_inflated_times_is_open(build):
    """25 % slower, allowed are 40 %: with an inflation of up to 30 % nobody can say."""
    (gate,) = _compared(build, 250, MEASURED, MEASURED, max_ratio=1.4).comparison.gates
    assert Outcome.OPEN is gate.outcome
    assert "30.0 %" in gate.text
    (gate,) = _compared(build, 250, max_ratio=1.4).comparison.gates
    assert Outcome.PASSED is gate.outcome
    (gate,) = _compared(build, 250, MEASURED, MEASURED, max_ratio=1.1).comparison.gates
    assert Outcome.OPEN is gate.outcome


def test_the_documents_hold_the_inflation_or_null(build):
    """Of an analysis, and of each side."""
    expected = {"ratio": 1.25, "interval": [1.2, 1.3], "how": "6 rounds"}

    def document(result):
        return json.loads(plugins.load("reports", "json").render(result))

    assert expected == document(_result(build, inflation=MEASURED))["inflation"]
    assert None is document(_result(build))["inflation"]
    got = document(_compared(build, 300, MEASURED))
    assert [expected, None] == [got[side]["inflation"] for side in ("baseline", "candidate")]


@pytest.mark.parametrize("report", ["terminal", "markdown"])
def test_reports_show_a_measured_inflation_and_nothing_where_there_is_none(build, report):
    """In the head of an analysis, and among the notes of a comparison."""

    def text(result):
        return " ".join(plugins.load("reports", report).render(result).split())

    assert "a step takes 1.250 times as long as untraced (95 % interval 1.200 to 1.300); 6 rounds" in text(
        _result(build, inflation=MEASURED)
    )
    assert "inflation" not in text(_result(build))
    assert "its tracer makes a step 1.250 times as long" in text(_compared(build, 300, MEASURED, MEASURED))


def _finding(result):
    return next((each for each in result.findings if each.code is FindingCode.PROFILER_INFLATION), None)


def test_a_measured_inflation_is_a_proved_finding_with_its_cost(build):
    """1.25 times: of 200 µs, 40 are the tracer's."""
    got = _finding(_result(build, inflation=MEASURED))
    assert (Evidence.PROVED, pytest.approx(40_000)) == (got.certainty, got.cost_ns_per_step)
    assert "1.250 times as long as without the profiler (95 % interval 1.200 to 1.300), 40.0 µs more" in got.text
    assert (1.25, 1.2, 1.3) == tuple(got.evidence[name] for name in ("ratio", "ratio_low", "ratio_high"))


@pytest.mark.parametrize(("ratio", "interval"), [(0.99, None), (1.0, None), (1.0001, None), (1.2, (0.95, 1.5))])
def test_an_inflation_that_may_be_none_is_no_finding(build, ratio, interval):
    """What costs nothing is not reported, nor what chance explains."""
    assert _finding(_result(build, inflation=Inflation(ratio, interval, ""))) is None


def test_what_the_profiler_reports_itself_is_told_beside_what_was_measured(build):
    """10 µs of overhead rows in each step; without a measurement they stand alone, as before."""
    rows = [(0, start * LENGTH + 150, start * LENGTH + 160) for start in range(40)]
    alone = _finding(_result(build, overhead=rows))
    assert alone.text.startswith("the profiler reports 10.0 µs a step")
    both = _finding(_result(build, inflation=MEASURED, overhead=rows))
    assert "6 rounds; the profiler reports 10.0 µs a step of its own work" in both.text


def test_a_measured_inflation_is_no_doubt_because_it_is_held_against_the_effect(build):
    """Unmeasured work of the profiler makes a side doubtful, so that it is not comparable."""
    rows = [(0, start * LENGTH + 150, start * LENGTH + 160) for start in range(40)]
    doubtful = side_of_capture(_result(build, overhead=rows), 40, 0)
    assert (FindingCode.PROFILER_INFLATION.value,) == doubtful.doubts
    assert () == side_of_capture(_result(build, inflation=MEASURED, overhead=rows), 40, 0).doubts
