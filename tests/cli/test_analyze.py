# ruff: noqa: SIM300 - the expected value stands first
"""`fdprof analyze` through the command line, on captures in tests/data."""

import gzip
import json
from pathlib import Path

import pytest

from fdprof.cli.analyze import Progress
from fdprof.nsys_tool import find_nsys

DATA = Path(__file__).parents[1] / "data" / "h200-2026-11-30"
TORCH = str(DATA / "torch_fence.kineto.json.gz")
PADDLE = str(DATA / "stop_flag_overlap.paddle_trace.json.gz")
RUN = str(DATA / "stop_flag_async.run")


def analysis(run_cli, *arguments):
    done = run_cli("analyze", *arguments, "--json")
    assert 0 == done.exit_code, done.stderr
    return json.loads(done.stdout)


def test_json_has_the_keys_of_the_contract(run_cli):
    """product.md section 6; unknown is null, certainty a word, and the ledger adds up."""
    document = analysis(run_cli, TORCH)
    assert (1, "analysis", "kineto", 60) == tuple(document[k] for k in ("schema_version", "kind", "source", "steps"))
    columns = [
        "window_ns",
        "device_busy_ns",
        "device_idle_ns",
        "host_blocked_ns",
        "harmful_wait_ns",
        "harmless_wait_ns",
    ]
    for statistic in ("mean", "p50", "p90", "p99", "max"):
        assert columns == list(document["ledger"][statistic])
    assert document["ledger"]["mean"]["device_idle_ns"] == pytest.approx(sum(document["idle_by_cause_ns"].values()))
    assert (0, 1.0) == (document["residual_ns"], document["syncs_per_step"])
    finding = {"code", "text", "certainty", "cost_ns_per_step", "evidence", "advice", "steps", "subject"}
    assert finding == set(document["findings"][0])
    assert {"proved", "inferred", "unknown"} >= {row["certainty"] for row in document["transfers"] + document["syncs"]}
    assert 3 == len(document["headline"])
    assert {"launch", "copy", "event_record", "event_wait"} <= document["calls_per_step"].keys()


def test_several_captures_are_one_document_in_their_order(run_cli):
    """Formats may differ."""
    document = analysis(run_cli, TORCH, PADDLE, RUN)
    assert "analyses" == document["kind"]
    assert ["kineto", "paddle_trace", "run"] == [entry["source"] for entry in document["analyses"]]


def test_a_capture_that_cannot_be_used_does_not_cost_the_others_their_report(run_cli):
    """Exit 4 with its message, behind the report of the rest."""
    done = run_cli("analyze", "nothing.json", TORCH)
    assert 4 == done.exit_code
    assert done.stdout.startswith(f"== {TORCH}\n")
    assert "nothing.json does not exist" in done.stderr


def test_the_report_is_written_in_the_format_of_its_ending(run_cli):
    """-o beside the print, and never over a file that is there."""
    done = run_cli("analyze", TORCH, "-o", "a.txt")
    assert (0, done.stdout) == (done.exit_code, Path("a.txt").read_text(encoding="utf-8"))
    assert 0 == run_cli("analyze", TORCH, "-o", "a.json").exit_code
    assert "analysis" == json.loads(Path("a.json").read_text(encoding="utf-8"))["kind"]
    assert 2 == run_cli("analyze", TORCH, "-o", "a.json").exit_code
    assert 0 == run_cli("analyze", TORCH, "-o", "a.json", "--force").exit_code


def test_steps_takes_a_part_by_position(run_cli):
    """10:20 are ten steps; the last of a part ends where the next step begins."""
    assert (10, 50) == tuple(analysis(run_cli, TORCH, "--steps", part)["steps"] for part in ("10:20", "10:"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--steps", "3"), "expected A:B"),
        (("--steps", "5:5"), "B is not above A"),
        (("--steps", "90:99"), "selects no step"),
        (("--step-range", "("), "no regular expression"),
        (("--step-range", ""), "is empty"),
        (("--process", "1"), "no such --process or --thread"),
        (("--device", "7"), "no work to --device 7"),
        (("-o", "a.xyz"), "no report writes .xyz"),
    ],
)
def test_an_option_that_selects_nothing_is_a_usage_error(run_cli, options, said):
    """Exit 2 and a sentence."""
    done = run_cli("analyze", TORCH, *options)
    assert 2 == done.exit_code
    assert said in done.stderr


def test_a_report_of_nsys_needs_nsys(run_cli, monkeypatch):
    """Exit 6, with the command that exports it."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("FDPROF_NSYS", raising=False)
    if find_nsys() is not None:
        pytest.skip("nsys is in one of NVIDIA's folders")
    Path("engine.nsys-rep").write_bytes(b"NVIDIA Tegra Profiler Report 36398880.\n" + bytes(64))
    done = run_cli("analyze", "engine.nsys-rep")
    assert 6 == done.exit_code
    assert "nsys export --type sqlite --output engine.sqlite engine.nsys-rep" in done.stderr


def test_the_step_range_chooses_other_ranges(run_cli):
    """`transfer` begins once a step: 59 windows, since the last one is only a part of its step."""
    assert 59 == analysis(run_cli, TORCH, "--step-range", "^transfer$")["steps"]


def test_a_run_counts_what_its_own_report_counts(run_cli):
    """40 steps; the 5 of warm-up are left out, and there is no overrun in async."""
    document = analysis(run_cli, RUN)
    assert (40, 5) == (document["steps"], document["steps_left_out"])


def test_one_step_is_one_row(run_cli):
    """Five statistics of one step would be five equal rows."""
    text = run_cli("analyze", TORCH, "--steps", "3:4").stdout
    assert "the one step" in text and "p99" not in text


def test_a_sqlite_export_is_read_beside_which_nothing_is_written(run_cli):
    """Not even SQLite's own files."""
    Path("only").mkdir()
    packed = (DATA / "stop_flag_async.nsys.sqlite.gz").read_bytes()
    Path("only/capture.sqlite").write_bytes(gzip.decompress(packed))
    assert 0 == run_cli("analyze", "only/capture.sqlite").exit_code
    assert ["capture.sqlite"] == [path.name for path in Path("only").iterdir()]


@pytest.mark.parametrize(("is_watched", "expected"), [(True, ["b", "d"]), (False, [])])
def test_progress_begins_after_a_second_and_keeps_to_two_lines_a_second(capsys, is_watched, expected):
    """At 0.9, 1.0, 1.2 and 1.6 s: the second and the last; nobody watching: none."""
    now = iter((0.0, 0.9, 1.0, 1.2, 1.6))
    progress = Progress(is_watched, lambda: next(now))
    for text in "abcd":
        progress(text)
    assert expected == capsys.readouterr().err.split()


def test_the_version_is_printed(run_cli):
    """And nothing else is done."""
    done = run_cli("--version")
    assert (0, True) == (done.exit_code, done.stdout.startswith("fdprof "))


def test_a_run_tells_its_copies_apart_by_direction_and_host_memory(run_cli):
    """insert_tasks in sync: 2 copies a step to pageable memory, and 28 uploads every 8th of 64 steps, 3.5 a step."""
    done = run_cli("run", "insert_tasks", "--mode", "sync", "--backend", "sim", "--steps", "64", "--json")
    assert 0 == done.exit_code, done.stderr
    found = next(entry for entry in json.loads(done.stdout)["findings"] if entry["code"] == "pageable-destination")
    assert (2.0, None) == (found["evidence"]["copies_per_step"], found["evidence"]["copy_ns"])
    assert "hold the host for" in found["text"] and "moves their bytes" not in found["text"]
    (folder,) = Path("runs").iterdir()
    document = analysis(run_cli, str(folder))
    copies = {}
    for entry in document["transfers"]:
        copies[entry["direction"]] = copies.get(entry["direction"], 0.0) + entry["per_step"]
        assert ("pageable", None) == (entry["memory"], entry["copy_ns"])
    assert {"device to host": 2.0, "host to device": 3.5} == pytest.approx(copies)
    assert {None} == {site["own_copy_ns"] for site in document["syncs"]}
