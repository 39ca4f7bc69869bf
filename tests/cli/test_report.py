# ruff: noqa: SIM300 - the expected value stands first
"""`fdprof report` of runs, comparisons and captures, and how an output's name chooses its format."""

import csv
import importlib
import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from fdprof.reports.html import HtmlReport

from fdprof.errors import UsageError

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


def test_a_report_called_run_json_does_not_make_its_folder_a_damaged_run(run_cli, tmp_path):
    """As `-o runs/run.json` beside saved runs does."""
    assert 0 == run_cli("run", "stop_flag", "--backend", "sim", "--steps", "5", "-o", "run.json", "--no-save").exit_code
    done = run_cli("report", ".")
    assert 4 == done.exit_code
    assert "run.json is a report of fdprof (-o or --json), and no saved run" in done.stderr


def test_the_hint_for_a_part_of_a_comparison_names_a_command_that_works(run_cli, tmp_path):
    """Of a comparison's folder one side is read as a capture."""
    run_cli("compare", "sync", "async", "--backend", "sim", "--steps", "5", "--blocks", "6", "--runs", "r")
    (place,) = (tmp_path / "r").iterdir()
    refused = run_cli("report", f"r/{place.name}", "--steps", "1:3")
    assert 2 == refused.exit_code
    assert f"fdprof analyze r/{place.name}/baseline reads a run as one" in refused.stderr
    assert 0 == run_cli("analyze", f"r/{place.name}/baseline", "--steps", "1:3").exit_code


def test_what_is_no_capture_is_named_by_analyze_too(run_cli, tmp_path):
    """A baseline file and a report of fdprof."""
    run_cli("compare", "sync", "--save-baseline", "base.json", "--backend", "sim", "--steps", "5", "--no-save")
    done = run_cli("analyze", "base.json")
    assert (4, True) == (done.exit_code, "base.json is a baseline" in done.stderr)


def test_a_run_that_only_timing_made_right_begins_with_that(run_cli):
    """The values are right, the order of the calls is not; the simulator's audit takes no time and says so."""
    options = ("--mode", "overlap", "--fault", "ring-too-shallow", "--backend", "sim", "--audit", "--no-save")
    done = run_cli("run", "stop_flag", *options)
    assert 5 == done.exit_code
    assert done.stdout.startswith(("hazards: ", "wrong values: "))
    assert "every call is journalled, which costs no simulated time" in " ".join(done.stdout.split())


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


def test_a_package_that_is_missing_is_named_and_is_no_bug_of_fdprof(run_cli, tmp_path, monkeypatch):
    """A broken installation: exit 6, as for whatever else is not there; nothing is written."""
    monkeypatch.setattr(HtmlReport, "render", lambda self, result: importlib.import_module("no_such_package"))
    done = run_cli("report", str(RUN), "-o", "page.html")
    assert 6 == done.exit_code
    assert "fdprof: the package no_such_package is not installed, which fdprof needs\n" in done.stderr
    assert "pip check" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    ("name", "package"),
    [("x.html", "jinja2"), ("x.perfetto-trace", "perfetto"), ("x.csv", "pandas"), ("x.transfers.parquet", "pyarrow")],
)
def test_what_a_format_needs_is_asked_for_before_anything_runs(run_cli, tmp_path, monkeypatch, name, package):
    """A loop of an hour is not lost for it."""
    monkeypatch.setitem(sys.modules, package, None)
    done = run_cli("run", "stop_flag", "--backend", "sim", "-o", name)
    assert (6, "") == (done.exit_code, done.stdout)
    assert f"{name} needs the package {package}, which is not installed" in done.stderr
    assert [] == list(tmp_path.iterdir())


def test_links_that_lead_nowhere_are_refused_before_anything_runs(run_cli, tmp_path):
    """Two that name each other, and one into a folder that is not there; --force does not help."""
    (tmp_path / "a.html").symlink_to("b.html")
    (tmp_path / "b.html").symlink_to("a.html")
    (tmp_path / "d.html").symlink_to("deep/nodir/x.html")
    for name in ("a.html", "d.html") if sys.version_info < (3, 13) else ("d.html",):
        refused = run_cli("run", "stop_flag", "--backend", "sim", "-o", name, "--force")
        assert (2, "") == (refused.exit_code, refused.stdout)
    assert not (tmp_path / "runs").exists()


def test_a_report_that_cannot_be_written_does_not_hide_that_blocks_were_not_saved(run_cli, monkeypatch):
    """Both are said; the disk was full before."""

    def full(self, result):
        raise UsageError("cannot write x.html: No space left on device")

    def no_space(folder, block):
        raise UsageError("cannot write block-000: No space left on device")

    monkeypatch.setattr(HtmlReport, "render", full)
    monkeypatch.setattr("fdprof.store.add_block", no_space)
    done = run_cli("run", "stop_flag", "--backend", "sim", "--steps", "5", "-o", "x.html")
    assert 2 == done.exit_code
    assert "cannot write block-000" in done.stderr
    assert "cannot write x.html" in done.stderr


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


@pytest.fixture
def run_here(run_cli, tmp_path, monkeypatch):
    """A copy of a saved run as the folder one stands in."""
    shutil.copytree(RUN, tmp_path / "mine")
    monkeypatch.chdir(tmp_path / "mine")
    return run_cli


@pytest.mark.parametrize("name", ["run.json", "block-000/x.csv"])
def test_what_is_read_is_not_written_to_when_it_is_the_folder_one_stands_in(run_here, name):
    """--force replaces outputs, and no recordings."""
    before = {path: path.read_bytes() for path in Path.cwd().rglob("*") if path.is_file()}
    refused = run_here("report", ".", "-o", name, "--force")
    assert 2 == refused.exit_code
    assert "would replace or add to what is read" in refused.stderr
    assert before == {path: path.read_bytes() for path in Path.cwd().rglob("*") if path.is_file()}


def test_a_new_file_beside_what_is_read_is_in_nobodys_way(run_here):
    """In the folder one stands in; the run is read again afterwards."""
    assert 0 == run_here("report", ".", "-o", "x.html").exit_code
    assert 0 == run_here("report", ".").exit_code


def test_a_file_that_came_meanwhile_is_kept(run_cli, tmp_path, monkeypatch):
    """Another process made it while the report was rendered; without --force it stays, and the report is printed."""
    from fdprof.reports.csv_ import CsvReport

    def render(self, result):
        (tmp_path / "x.csv").write_text("precious", encoding="utf-8")
        return "made\n"

    monkeypatch.setattr(CsvReport, "render", render)
    refused = run_cli("report", str(CAPTURE), "-o", "x.csv")
    assert (2, "precious") == (refused.exit_code, (tmp_path / "x.csv").read_text(encoding="utf-8"))
    assert "x.csv has come to exist meanwhile" in refused.stderr
    assert refused.stdout.startswith("Host and device take turns")
    assert 0 == run_cli("report", str(CAPTURE), "-o", "x.csv", "--force").exit_code
    assert "made\n" == (tmp_path / "x.csv").read_text(encoding="utf-8")
    assert ["x.csv"] == [entry.name for entry in tmp_path.iterdir()]


def test_an_output_is_written_though_nobody_reads_what_is_printed(tmp_path):
    """`| head`: standard output is closed before the report comes."""
    command = [sys.executable, "-m", "fdprof", "report", str(CAPTURE), "-o", str(tmp_path / "x.md")]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert 141 == done.returncode
    assert (tmp_path / "x.md").read_text(encoding="utf-8").startswith("## fdprof")


def test_an_output_has_the_permissions_that_its_owner_wants(run_cli, tmp_path, monkeypatch):
    """A new one those of the umask, one that is replaced those that it had."""
    before = os.umask(0o077)
    try:
        run_cli("report", str(CAPTURE), "-o", "new.md")
    finally:
        os.umask(before)
    assert 0o600 == stat.S_IMODE((tmp_path / "new.md").stat().st_mode)
    (tmp_path / "old.md").touch()
    (tmp_path / "old.md").chmod(0o640)
    run_cli("report", str(CAPTURE), "-o", "old.md", "--force")
    assert 0o640 == stat.S_IMODE((tmp_path / "old.md").stat().st_mode)


def test_a_name_that_drives_a_terminal_is_escaped_in_what_is_said_of_it(run_cli):
    """The sequence would set the terminal's title."""
    done = run_cli("report", str(CAPTURE), "-o", "a\x1b]0;b\x07.md")
    assert 0 == done.exit_code
    assert "\x1b" not in done.stderr


def test_a_folder_that_drives_a_terminal_is_escaped_in_what_is_said_of_it(run_cli):
    """Whatever is said on standard error, here where the run was saved."""
    done = run_cli("run", "stop_flag", "--backend", "sim", "--steps", "5", "--runs", "a\x1b]0;b\x07")
    assert 0 == done.exit_code
    assert "saved a" in done.stderr
    assert "\x1b" not in done.stderr


def test_a_run_without_a_blocking_call_does_not_know_how_long_it_was_blocked(run_cli, tmp_path):
    """`unfenced` waits for nothing by a call; its launches may wait unseen.  Not observed is not 0, in any format."""
    done = run_cli(
        "run", "stop_flag", "--mode", "unfenced", "--backend", "sim", "--steps", "8", "--runs", "r", "--json"
    )
    assert 5 == done.exit_code
    means = json.loads(done.stdout)["ledger"]["mean"]
    assert [None] * 3 == [means[name] for name in ("host_blocked_ns", "harmful_wait_ns", "harmless_wait_ns")]
    # Nothing follows from times of wrong steps; that no wait guards the copies is why they are wrong.
    assert ["no-fence"] == [finding["code"] for finding in json.loads(done.stdout)["findings"]]
    (place,) = (tmp_path / "r").iterdir()
    run_cli("report", str(place), "-o", "x.html")
    run_cli("report", str(place), "-o", "x.csv")
    run_cli("report", str(place), "-o", "x.perfetto-trace")
    assert '"blocked_ns":null' in (tmp_path / "x.html").read_text(encoding="utf-8")
    with (tmp_path / "x.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            assert ["", "", ""] == [row[name] for name in ("host_blocked_ns", "harmful_wait_ns", "harmless_wait_ns")]
    assert b"host blocked" not in (tmp_path / "x.perfetto-trace").read_bytes()


def test_a_run_read_as_a_capture_does_not_know_its_copies_time(run_cli):
    """Without a tracer they have no device interval: null, and not 0."""
    assert json.loads(run_cli("analyze", str(RUN), "--json").stdout)["copy_alone_ns"] is None
    assert 0 < json.loads(run_cli("analyze", str(CAPTURE), "--json").stdout)["copy_alone_ns"]
