# ruff: noqa: SIM300 - the expected value stands first
"""The terminal report: what it shows at which width, and that no name breaks it."""

import io
import re
from dataclasses import replace

import pytest
from fdprof.reports._comparison_words import bridge_rows
from fdprof.reports._run_text import outcome_lines
from fdprof.reports.protocol import Analyses, ComparisonResult
from fdprof.reports.terminal import REPORT, TerminalReport, terminal_report
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from fdprof.analysis.capture_result import analyze
from fdprof.analysis.compare import compare
from fdprof.analysis.results import result_of
from fdprof.analysis.steps import Choice
from fdprof.comparison import Policy
from fdprof.model import Summary

NAMES = (
    "run", "run_interrupted", "run_wrong", "run_one_step", "comparison", "comparison_not_comparable",
    "comparison_wrong", "comparison_captures", "comparison_baseline_file", "analysis", "analysis_inflated",
    "analysis_no_device", "analysis_hostile", "analyses", "overhead",
)  # fmt: skip
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def test_every_case_is_shown_here(cases):
    """A new case gets its golden files."""
    assert set(cases.names) == set(NAMES)


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", NAMES)
def test_each_result_is_shown_as_it_was_looked_at(cases, golden, name, width):
    """Whole outputs; a change of any of them is looked at again."""
    golden("terminal", f"{name}-{width}.txt", TerminalReport(width).render(cases[name]))


def test_of_several_blocks_a_step_is_named_with_its_block(make_session):
    """Each block numbers its steps anew; the first column is of block 0, the largest step of block 1 here."""
    run = make_session(steps=6, warmup=2, host_times="lognormal:1", seed=1).run("sync", blocks=2)
    result = result_of(run)
    windows = result.counted("window_ns").tolist()
    at = windows.index(max(windows))
    assert result.facts.steps.label(at) == f"{at // 6}:{2 + at % 6}" == result.label_of_max("window_ns")
    lines = TerminalReport(100).render(result).splitlines()
    (step,) = [line.split() for line in lines if line.startswith("  step ") and line.split()[-1].count(":")]
    assert f"{at // 6}:{2 + at % 6}" == step[-1]
    assert any("step 0:2" in line for line in lines)


def test_a_size_that_is_not_known_is_not_shown_as_0(build):
    """As a trace without bytes has it; the sentence leaves it out."""
    calls = [("cudaLaunchKernel", 0, 5), ("cudaMemcpy", 10, 80)]
    work = [("kernel", 6, 60, 0), ("D2H pageable", 66, 68, 1)]
    capture = build.a_loop(3, 100, calls, work, [("transfer", 9, 90)])
    text = TerminalReport(100, False, False).render(analyze(capture, "x", Choice()))
    assert "1.00 × -" in text
    assert "0 B" not in text
    assert "First, 1.00 copies a step to pageable host memory (in transfer): copy" in " ".join(text.split())


@pytest.mark.parametrize("name", ["run", "comparison", "analysis_hostile"])
def test_in_ascii_it_is_the_same_report(cases, golden, name):
    """With a letter for each meaning in the bars."""
    text = TerminalReport(80, is_ascii=True).render(cases[name])
    assert text.isascii()
    golden("terminal", f"{name}-80-ascii.txt", text)


@pytest.mark.parametrize("name", ["comparison", "analysis"])
def test_in_colour_it_is_the_same_report(cases, golden, name):
    """Colours and bold letters, and nothing moves."""
    text = TerminalReport(80, color=True).render(cases[name])
    golden("terminal", f"{name}-80-colour.txt", text)
    assert TerminalReport(80).render(cases[name]) == re.sub(r"\x1b\[[\d;]*m", "", text)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("width", [40, 41, 47, 60, 79, 80, 81, 100, 119, 140, 200])
def test_no_line_is_longer_than_the_width_and_every_number_is_whole(cases, name, width):
    """At any width the numbers are those of a page on which nothing has to fold."""
    text = TerminalReport(width).render(cases[name])
    assert all(cell_len(line) <= width for line in text.splitlines())
    assert text.endswith("\n") and not text.endswith("\n\n")
    if name != "analysis_hostile":  # names with numbers in them may be cut
        assert set(NUMBER.findall(TerminalReport(400).render(cases[name]))) == set(NUMBER.findall(text))


def test_a_width_below_forty_counts_as_forty(cases):
    """Such a terminal wraps the lines itself."""
    assert TerminalReport(40).render(cases["run"]) == TerminalReport(1).render(cases["run"])


def test_a_wide_terminal_shows_the_first_steps_beside_the_statistics(cases):
    """On a narrow one they are a table of their own."""
    wide, narrow = (TerminalReport(width).render(cases["run"]).splitlines() for width in (130, 80))
    assert ["mean", "p50", "p90", "p99", "max", "at", "step", "step", "0:3"] == next(
        line.split() for line in wide if " mean " in line and "p50" in line
    )[:9]
    assert "of these the first" in narrow
    assert "of these the first" not in wide


def _summary(count):
    return Summary(count, 1e3, 1e3, 1e3, 77e3, 88e3, 5)


@pytest.mark.parametrize(("count", "shown"), [(99, False), (100, True)])
def test_a_p99_is_shown_from_100_steps_on(cases, count, shown):
    """Of 99 it is the largest value or nearly; the note says so once."""
    run, analysis = cases["run"], cases["analysis"]
    summaries = {name: _summary(count) for name in (*run.summaries, *analysis.summaries)}
    text = REPORT.render(replace(run, summaries=summaries))
    assert shown is ("77.0" in text)
    assert (0 if shown else 1) == text.count("note: p99 is shown from 100 counted steps on")
    assert "88.0" in text


def test_a_comparison_shows_a_p99_of_100_steps_a_side(cases):
    """72 steps are too few on one side, and then there is no ratio either."""
    made = cases["comparison"]
    comparison = made.comparison

    def row(ours, theirs):
        sides = [
            replace(side, windows_ns=(side.steps_ns[:1].repeat(count),))
            for side, count in ((comparison.baseline, ours), (comparison.candidate, theirs))
        ]
        text = REPORT.render(replace(made, comparison=replace(comparison, baseline=sides[0], candidate=sides[1])))
        assert (ours < 100 or theirs < 100) is ("note: p99 is shown from 100" in text)
        return next(line for line in text.splitlines() if "step, p99" in line).split()[2:]

    assert ["-", "-", "-", "-"] == row(99, 99)
    assert ["1,209.8", "-", "-", "-"] == row(100, 99)
    assert ["1,209.8", "1,081.9", "0.894", "-"] == row(100, 100)


def test_what_a_wait_learns_late_has_a_p99_of_100_waits_only(cases):
    """Of fewer the largest is given and called that."""
    run = cases["run_interrupted"]
    few, many = (
        "\n".join(outcome_lines(replace(run, fence=replace(run.fence, learn=_summary(count))))) for count in (99, 100)
    )
    assert "p50 1.0, max 88.0 µs" in few
    assert "p50 1.0, p99 77.0 µs" in many


def test_wrong_values_are_said_first(cases):
    """Before any time."""
    assert REPORT.render(cases["run_wrong"]).startswith("wrong values: values 32 of 8,190 right")
    assert "wrong values" not in REPORT.render(cases["run"])


def test_several_captures_stand_one_below_the_other(cases):
    """Each under its path, and as it is alone."""
    analyses = cases["analyses"]
    text = REPORT.render(analyses)
    for entry in analyses.results:
        assert f"== {entry.path}\n{REPORT.render(entry)}" in text
    assert REPORT.render(Analyses(())) == ""


def test_more_rows_than_are_shown_are_counted(cases):
    """Thirteen call sites: ten, and three more."""
    analysis = cases["analysis"]
    stalls = replace(analysis.facts.stalls, sites=analysis.facts.stalls.sites[:1] * 13)
    text = REPORT.render(replace(analysis, facts=replace(analysis.facts, stalls=stalls)))
    assert "... and 3 more call sites" in text


def test_the_report_for_a_stream_fits_it(cases):
    """A pipe in Latin-1 has no colours, 100 columns, and carries no bars."""
    pipe = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    report = terminal_report(pipe, {"TERM": "xterm"})
    assert TerminalReport(100, False, True) == report
    for name in NAMES:
        pipe.write(report.render(cases[name]))
    assert TerminalReport(72, True, False) == terminal_report(
        io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), {"FORCE_COLOR": "1"}, 72
    )


CHARACTERS = st.one_of(
    st.characters(),
    st.sampled_from("\x1b\x07\r\n\t\u202e\u200d\ufe0f\u0301\u2028漢カ\u3000🚀👩❤[]{}=,'\"`<>&|µ±×"),
)
HOSTILE = st.text(CHARACTERS, min_size=1, max_size=80)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(HOSTILE, min_size=4, max_size=4), width=st.integers(40, 200), is_ascii=st.booleans())
def test_no_name_makes_a_line_too_long_or_drives_the_terminal(build, names, width, is_ascii):
    """Ranges, call sites, kernels, the device, the file: lone surrogates and all."""
    calls = [("cudaLaunchKernel", 1, 3), ("cudaMemcpy", 20, 70), ("cudaStreamSynchronize", 71, 72)]
    work = [(f"kernel {names[0]}", 4, 15, 0, 7), ("D2H pageable 4", 60, 61, 1, 7)]
    capture = build.a_loop(12, 100, calls, work, [(names[1], 16, 80), (names[2], 19, 75)])
    capture = replace(capture, devices=(replace(capture.devices[0], name=names[3]),), limits=(names[0],))
    text = TerminalReport(width, False, is_ascii).render(analyze(capture, names[3], Choice()))
    assert all(cell_len(line) <= width for line in text.split("\n"))
    assert all(character.isprintable() or character == "\n" for character in text)
    text.encode("ascii" if is_ascii else "utf-8")
    assert "12 steps found by ranges named decode_step" in " ".join(text.split())


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ours=HOSTILE, theirs=HOSTILE, width=st.integers(40, 200))
def test_no_label_of_a_side_breaks_a_comparison(cases, ours, theirs, width):
    """A label is a file's name, or what a baseline file says."""
    made = cases["comparison"]
    comparison = made.comparison
    baseline = replace(comparison.baseline, label=ours, parts_ns={ours: int(comparison.baseline.steps_ns.sum())})
    candidate = replace(comparison.candidate, label=theirs)
    named = replace(made, comparison=replace(comparison, baseline=baseline, candidate=candidate), baseline=None)
    text = TerminalReport(width).render(named)
    assert all(cell_len(line) <= width for line in text.split("\n"))
    assert all(character.isprintable() or character == "\n" for character in text)
    assert {"1,209.8", "1,081.9", "-127.850"} <= set(text.split())


def test_what_does_not_change_is_a_row_of_a_bridge_so_that_its_columns_add_up(build):
    """50,000 + 500 ns stay, 1,000 go: 51.5 and 50.5 µs a step."""
    ours = build.a_side([51_500], parts_ns={"busy:compute": 50_000, "blocked": 500, "host:a": 1_000})
    theirs = build.a_side([50_500], parts_ns={"busy:compute": 50_000, "blocked": 500, "host:a": 0})
    rows = bridge_rows(ComparisonResult(compare(ours, theirs, Policy()), None, None))
    assert [
        ("host:a", "1.0", "0.0", "-1.000"),
        ("2 unchanged", "50.5", "50.5", "+0.000"),
        ("the step", "51.5", "50.5", "-1.000"),
    ] == rows


def test_what_the_device_does_is_never_among_the_others_of_a_bridge(build):
    """Of 14 parts that changed ten are shown; busy:compute changed least, and is most of the step all the same.

    Baseline: 13 host parts of 100 to 1,300 ns and 50,000 ns compute in one step; candidate: 1 ns more of compute.
    """
    hosts = {f"host:r{number}": 100 * number for number in range(1, 14)}
    ours = build.a_side([sum(hosts.values()) + 50_000], parts_ns={"busy:compute": 50_000, **hosts})
    theirs = build.a_side([50_001], parts_ns={"busy:compute": 50_001, **dict.fromkeys(hosts, 0)})
    rows = bridge_rows(ComparisonResult(compare(ours, theirs, Policy()), None, None))
    assert ("busy:compute", "50.0", "50.0", "+0.001") in rows
    # Shown are the ten largest changes, r4 to r13, and the compute; the others are r1, r2 and r3.
    assert ("3 others", "0.6", "0.0", "-0.600") in rows
