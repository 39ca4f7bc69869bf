# ruff: noqa: SIM300 - the expected value stands first
"""`fdprof report` of runs, comparisons and captures, and how an output's name chooses its format."""

import json
import shutil
from pathlib import Path

import pytest

DATA = Path(__file__).parents[1] / "data" / "h200-2026-11-30"
CAPTURE = DATA / "both-ways" / "stop_flag_sync.fdprof"
RUN = DATA / "stop_flag_sync.run"


def test_a_capture_is_reported_as_analyze_reports_it(run_cli):
    """The same text, and with the same options the same steps."""
    for options in ((), ("--steps", "3:9"), ("--json", "--step-range", "^step$")):
        again = run_cli("report", str(CAPTURE), *options)
        assert 0 == again.exit_code
        assert run_cli("analyze", str(CAPTURE), *options).stdout == again.stdout


def test_a_trace_file_is_reported_too(run_cli, tmp_path):
    """As analyze does: whatever an importer knows."""
    shutil.copy(DATA / "stop_flag_sync.paddle_trace.json.gz", tmp_path / "trace.json.gz")
    again = run_cli("report", "trace.json.gz", "--json")
    assert (0, "analysis") == (again.exit_code, json.loads(again.stdout)["kind"])


def test_a_run_is_reported_as_a_run_and_not_as_a_capture(run_cli):
    """It has tokens, which a capture has not."""
    done = run_cli("report", str(RUN), "--json")
    assert "run" == json.loads(done.stdout)["kind"]


def test_a_saved_side_has_the_same_steps_whether_reported_or_analyzed(run_cli, tmp_path):
    """Between its blocks the other side ran, which is no part of a step."""
    done = run_cli("compare", "sync", "overlap", "--backend", "sim", "--steps", "20", "--blocks", "6", "--runs", "r")
    assert 0 == done.exit_code
    (place,) = (tmp_path / "r").iterdir()
    for side in ("baseline", "candidate"):
        reported = json.loads(run_cli("report", str(place / side), "--json").stdout)
        analyzed = json.loads(run_cli("analyze", str(place / side), "--json").stdout)
        assert 120 == reported["steps"] == analyzed["steps"]
        for column in ("window_ns", "device_busy_ns", "device_idle_ns"):
            for statistic in ("mean", "p50", "max"):
                assert reported["ledger"][statistic][column] == analyzed["ledger"][statistic][column]


@pytest.mark.parametrize("option", ["--steps=0:3", "--step-range=x", "--device=0", "--process=1", "--thread=1"])
def test_an_option_for_captures_is_refused_for_a_run(run_cli, option):
    """Rather than ignored; the hint names the command that takes it."""
    refused = run_cli("report", str(RUN), option)
    assert 2 == refused.exit_code
    assert f"{option.split('=')[0]} is for captures" in refused.stderr
    assert "fdprof analyze" in refused.stderr


def test_a_report_is_refused_as_what_it_is(run_cli, tmp_path):
    """Its steps are not in it."""
    run_cli("analyze", str(CAPTURE), "-o", "x.json")
    refused = run_cli("report", "x.json")
    assert 4 == refused.exit_code
    assert "x.json is a report of fdprof" in refused.stderr


def test_a_baseline_is_refused_as_what_it_is(run_cli):
    """It is one side; the hint says how to hold another against it."""
    run_cli("compare", "sync", "--backend", "sim", "--save-baseline", "b.json", "--blocks", "2", "--steps", "5")
    refused = run_cli("report", "b.json")
    assert 4 == refused.exit_code
    assert "b.json is a baseline" in refused.stderr
    assert "--baseline b.json" in refused.stderr


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("x.json", b"{"),
        ("x.md", b"## fdprof"),
        ("x.txt", b"Host and device take turns"),
        ("x.html", b"<!doctype html>"),
        ("X.HTML", b"<!doctype html>"),
        ("x.csv", b""),
        ("x.transfers.csv", b""),
        ("x.parquet", b"PAR1"),
        ("x.transfers.parquet", b"PAR1"),
        ("x.perfetto-trace", b""),
    ],
)
def test_the_ending_of_an_output_chooses_its_format(run_cli, tmp_path, name, begins):
    """Each format begins as it must, and the file is the only thing left behind."""
    done = run_cli("report", str(CAPTURE), "-o", name)
    assert 0 == done.exit_code, done.stderr
    assert f"wrote {name}\n" == done.stderr
    assert [name] == [entry.name for entry in tmp_path.iterdir()]
    assert (tmp_path / name).read_bytes().lower().startswith(begins.lower())


def test_of_two_endings_that_fit_the_longer_decides(run_cli, tmp_path):
    """x.transfers.csv holds transfers, one row each, and x.csv steps."""
    run_cli("report", str(CAPTURE), "-o", "x.csv")
    run_cli("report", str(CAPTURE), "-o", "x.transfers.csv")
    assert "window_ns" in (tmp_path / "x.csv").read_text(encoding="utf-8").splitlines()[0]
    assert "size_bytes" in (tmp_path / "x.transfers.csv").read_text(encoding="utf-8").splitlines()[0]


def test_an_unknown_ending_gets_the_list_of_those_there_are(run_cli):
    """Before anything is read."""
    refused = run_cli("report", str(CAPTURE), "-o", "x.svg")
    assert 2 == refused.exit_code
    for ending in (".csv", ".html", ".json", ".md", ".parquet", ".perfetto-trace", ".transfers.csv", ".txt"):
        assert ending in refused.stderr


@pytest.mark.parametrize("name", ["x.transfers.csv", "x.perfetto-trace"])
def test_what_profiling_costs_has_no_transfers_and_no_timeline(run_cli, tmp_path, name):
    """Said before the loop is run, which takes minutes."""
    refused = run_cli("overhead", "stop_flag", "-o", name)
    assert 2 == refused.exit_code
    assert f"{name.removeprefix('x')} file cannot hold this" in refused.stderr
    assert [] == list(tmp_path.iterdir())
