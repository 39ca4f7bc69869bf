# ruff: noqa: SIM300 - the expected value stands first
"""`fdprof overhead`: what is refused before anything runs, and what its reports say."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import typer
from fdprof.reports.protocol import Reportable
from typer.testing import CliRunner

from fdprof import plugins
from fdprof.analysis.inflation import BLOCKS, ROUNDS, Condition, OverheadResult, bare_cost, cost_of
from fdprof.cli import overhead
from fdprof.cli.app import ErrorBoundary
from fdprof.params import LoopParams


@pytest.fixture
def run_overhead(tmp_path, monkeypatch):
    """Run the command in an empty folder and return its result."""
    monkeypatch.chdir(tmp_path)
    app = typer.Typer(cls=ErrorBoundary, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.callback()(lambda: None)
    app.command("overhead")(overhead.command_for(LoopParams))
    return lambda *arguments: CliRunner().invoke(app, ["overhead", *arguments])


def test_the_simulator_is_refused_with_exit_6(run_overhead, tmp_path):
    """Nothing is run and nothing made."""
    done = run_overhead("stop_flag", "--backend", "sim")
    assert 6 == done.exit_code
    assert "what profiling costs cannot be measured on sim: its times are virtual" in done.stderr
    assert [] == list(tmp_path.iterdir())


def test_auto_that_would_take_the_simulator_is_refused_with_the_reason(run_overhead):
    """What is missing is the backend's own reason."""
    problem = plugins.load("backends", "paddle").missing()
    if problem is None:
        pytest.skip("a GPU with Paddle works here")
    done = run_overhead("stop_flag")
    assert 6 == done.exit_code
    assert problem[0] in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("no_such", "--backend", "sim"), "no_such"),
        (("stop_flag", "--mode", "asynk"), "did you mean async?"),
        (("stop_flag", "--rounds", "0"), "--rounds is 0, expected 1 to 1000"),
        (("stop_flag", "--blocks", "0"), "--blocks is 0"),
        (("stop_flag", "--with", "nsys"), "'nsys', which is no condition"),
        (("stop_flag", "--steps", "0"), "--steps is 0"),
        (("stop_flag", "-o", "x.svg"), "no report writes .svg"),
    ],
)
def test_a_mistake_gets_one_message_before_anything_runs(run_overhead, tmp_path, arguments, words):
    """Exit 2, whatever backend there is."""
    done = run_overhead(*arguments)
    assert 2 == done.exit_code
    assert words in done.stderr
    assert [] == list(tmp_path.iterdir())


def test_an_existing_output_is_kept(run_overhead, tmp_path):
    """Without --force."""
    (tmp_path / "out.json").write_text("mine", encoding="utf-8")
    done = run_overhead("stop_flag", "-o", "out.json")
    assert (2, "mine") == (done.exit_code, (tmp_path / "out.json").read_text(encoding="utf-8"))


def test_help_is_the_commands_docstring(run_overhead):
    """With the options of the loop."""
    done = run_overhead("--help")
    assert 0 == done.exit_code
    assert "Measure what profiling costs a loop." in done.stdout
    assert "--rounds" in done.stdout and "--device-us" in done.stdout


def _units(*means):
    return [np.array([round(1000 * mean)], dtype=np.int64) for mean in means]


@pytest.fixture
def result(build):
    """A bare loop of 200 µs, our collector at 1.05 of it, blocks of it that are back to bare, and no nsys."""
    bare = _units(*[200] * 6)
    return OverheadResult(
        scenario="stop_flag",
        mode="async",
        backend="paddle",
        parameters={
            "sequences": 64,
            "device_us": 200.0,
            "kernels": 20,
            "launch": "kernels",
            "schedule_us": 10.0,
            "save_output_us": 5.0,
            "steps": 200,
            "blocks": 5,
        },
        environment=build.ENVIRONMENT,
        rounds=6,
        process_sd=0.012,
        conditions=(
            Condition("bare", "none", ROUNDS, bare_cost(bare)),
            Condition("fdprof", "collector 1", ROUNDS, cost_of(bare, _units(*[210] * 6), paired=True)),
            Condition("nsys-graph", "Nsight Systems", ROUNDS, None, "nsys is not there: [bold]install it"),
            Condition("fdprof-stopped", "collector 1", BLOCKS, cost_of(bare, bare, paired=False)),
        ),
    )


def _rendered(result: Reportable, report):
    return plugins.load("reports", report).render(result)


def test_the_document_lists_every_condition_with_ratio_interval_and_reason(result):
    """210 / 200 = 1.05, 10 µs more; null where there is no number."""
    got = json.loads(_rendered(result, "json"))
    assert (1, "overhead", "stop_flag", "async", 6) == tuple(
        got[name] for name in ("schema_version", "kind", "scenario", "mode", "rounds")
    )
    assert 200 == got["parameters"]["device_us"]
    bare, ours, nsys, stopped = got["conditions"]
    assert (1.0, None, 200_000.0, 0.0) == tuple(
        bare[name] for name in ("ratio", "ratio_interval", "mean_step_ns", "added_ns_per_step")
    )
    assert {
        "name": "fdprof",
        "tool": "collector 1",
        "ratio": 1.05,
        "ratio_interval": [1.05, 1.05],
        "p50_ratio": 1.05,
        "added_ns_per_step": 10_000.0,
        "mean_step_ns": 210_000.0,
        "smallest_visible_ratio": 1.0,
        "unit": "rounds",
        "units": 6,
        "missing": None,
    } == ours
    assert (None, None, None, "nsys is not there: [bold]install it") == tuple(
        nsys[name] for name in ("ratio", "mean_step_ns", "units", "missing")
    )
    assert "blocks of one process" == stopped["unit"]


def test_the_terminal_shows_rows_reasons_and_how_little_could_be_seen(result):
    """What has no numbers stands below the table, as it is written."""
    text = _rendered(result, "terminal")
    row = next(line for line in text.splitlines() if line.strip().startswith("fdprof "))
    assert ["fdprof", "210.0", "+10.0", "1.050", "1.050", "to", "1.050", "1.050", "1.000", "6", "rounds"] == row.split()
    assert "nsys-graph is not measured: nsys is not there: [bold]install it" in text
    assert "differ by 1.2 % (standard deviation)" in text
    assert "device work asked for 200 µs, 20 kernels, launch kernels, host work 15 µs" in text


def test_markdown_has_the_same_rows(result):
    """For a job page; what means something to Markdown is escaped."""
    text = _rendered(result, "markdown")
    assert "| fdprof | 210.0 | +10.0 | 1.050 | 1.050 to 1.050 | 1.050 | 1.000 | 6 rounds |" in text
    assert r"nsys-graph is not measured: nsys is not there: \[bold\]install it" in text


def test_a_condition_that_lost_rounds_has_numbers_and_the_reason(result):
    """Not one or the other."""
    lost = Condition("torch", "torch", ROUNDS, result.conditions[1].cost, "failed in round 4: it died")
    text = _rendered(dataclasses.replace(result, conditions=(*result.conditions, lost)), "terminal")
    assert "torch lacks rounds: failed in round 4: it died" in text


@pytest.mark.gpu
def test_the_bare_loop_and_our_collector_are_measured_on_a_gpu(run_overhead):
    """Two rounds: the document has both, and the runs are kept, all of the kernels that a bare one calibrated."""
    done = run_overhead("stop_flag", "--with", "fdprof", "--rounds", "2", "--steps", "50", "--json")
    assert 0 == done.exit_code, done.stderr
    got = {condition["name"]: condition for condition in json.loads(done.stdout)["conditions"]}
    assert ["bare", "fdprof", "fdprof-in-process", "fdprof-stopped"] == list(got)
    assert all(condition["missing"] is None for condition in got.values()), got
    assert all(condition["mean_step_ns"] > 0 for condition in got.values())
    works = [json.loads(path.read_text())["work"] for path in Path("runs").rglob("run.json")]
    assert 1 + 2 * 2 == len(works)
    assert all(work == works[0] and work["kernel_ns"] > 0 for work in works)


def test_a_call_without_a_result_leaves_nothing_and_one_with_it_all_its_runs(run_overhead, tmp_path, monkeypatch):
    """On the simulator, which only this test lets pass: a loop that reads wrong values, then one that is right."""
    monkeypatch.setattr("fdprof.traced_loop.real_backend", lambda name: name)
    small = ("--backend", "sim", "--with", "bare", "--rounds", "1", "--blocks", "2", "--steps", "20")
    done = run_overhead("stop_flag", "--mode", "unfenced", *small)
    assert 4 == done.exit_code
    assert "first wrong value" in done.stderr
    assert [] == list((tmp_path / "runs").iterdir())
    done = run_overhead("stop_flag", *small, "-o", "out.md")
    assert 0 == done.exit_code, done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    assert f"saved runs/{folder.name}" in done.stderr
    assert "overhead" == json.loads((folder / "overhead.json").read_text(encoding="utf-8"))["kind"]
    assert 1 == len(list(folder.glob("round-1/bare/*/run.json")))
    assert (tmp_path / "out.md").read_text(encoding="utf-8").startswith("## fdprof: what profiling costs stop\\_flag")
