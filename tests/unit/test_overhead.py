# ruff: noqa: SIM300 - the expected value stands first
"""fdprof.overhead, traced_loop and alternation: conditions in processes of their own, on the simulator where a GPU is
not the point."""

import dataclasses
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fdprof import plugins, store
from fdprof.alternation import alternate, main, read_result, request_document
from fdprof.errors import EnvironmentMissing, FdprofError, InputError, ScenarioFailed, UsageError, WrongResult
from fdprof.overhead import measure, measured_inflation
from fdprof.params import Extent, LoopParams
from fdprof.traced_loop import (
    BARE,
    NVTX,
    SETTINGS,
    Loop,
    Setting,
    calibrated,
    missing_here,
    real_backend,
    run_once,
    run_under,
    settings_of,
)
from fdprof.tracers.protocol import Request

AGAIN = Setting("again", "the bare loop a second time", None)
BROKEN = Setting("broken", "a Python that does not start", None, environment=(("PYTHONHOME", "/nowhere"),))


def _loop(mode="async", blocks=2, **params):
    return Loop("stop_flag", mode, "sim", blocks, LoopParams(sequences=4, **params), Extent(steps=20, warmup=3))


def _nothing(text):
    """Take a line of progress."""


def test_the_command_records_the_loop_with_every_parameter(tmp_path, run_cli):
    """What a process is told is what was asked for, so that its saved run has the same parameters."""
    loop = _loop(mode="overlap", device_us=123.5, device_times="normal:0.1")
    command = loop.command(tmp_path / "runs")
    assert (sys.executable, "-m", "fdprof", "run", "stop_flag") == command[:5]
    assert 0 == run_cli(*command[3:]).exit_code
    (folder,) = (tmp_path / "runs").iterdir()
    run = store.load(folder)
    assert ("-c", "import this; from fdprof.__main__ import main; main()") == loop.command(tmp_path, "import this")[1:3]
    assert ("overlap", "sim", 2) == (run.mode, run.backend, len(run.blocks))
    assert (123.5, "normal:0.1", 20, 3) == tuple(
        run.params[n] for n in ("device_us", "device_times", "steps", "warmup")
    )


def test_conditions_are_chosen_by_name_and_the_bare_loop_is_always_there():
    """In the order of the report, whatever the order asked for."""
    assert SETTINGS == settings_of(None)
    assert ["bare", "nvtx", "torch"] == [setting.name for setting in settings_of("torch, nvtx")]


@pytest.mark.parametrize(("names", "hint"), [("nsys", "nsys-"), ("xyz,torch", "choose from: bare, nvtx"), ("", "")])
def test_a_name_that_is_no_condition_is_refused(names, hint):
    """With the nearest, or all of them."""
    with pytest.raises(UsageError, match="no condition") as raised:
        settings_of(names)
    assert hint in raised.value.hint


def test_the_simulator_is_refused_because_its_times_are_virtual():
    """By its name, and where auto would take it, with the reason."""
    with pytest.raises(EnvironmentMissing, match="its times are virtual"):
        real_backend("sim")
    problem = plugins.load("backends", "paddle").missing()
    if problem is None:
        assert "paddle" == real_backend("auto")
    else:
        with pytest.raises(EnvironmentMissing, match="backend auto takes it here"):
            real_backend("auto")


def test_rounds_run_every_condition_and_alternate_their_order(tmp_path):
    """The bare loop twice under the virtual clock: exactly equal.  Every run is kept."""
    lines = []
    got = measure(_loop(), (BARE, AGAIN), 3, tmp_path, lines.append, lines.append)
    order = [line for line in lines if line.startswith("round")]
    first, second = ["bare", "again"], ["again", "bare"]
    names = [*first, *second, *first]
    assert [f"round {at // 2 + 1} of 3: {name}" for at, name in enumerate(names)] == order
    assert 1 == len([line for line in lines if re.fullmatch(r"about [\d,]+ s for the other 2 rounds", line)])
    bare, again = got.conditions
    assert (3, False, 0.0) == (got.rounds, got.interrupted, got.process_sd)
    assert (1.0, 1.0, 0.0, 3) == (again.cost.ratio.value, again.cost.p50_ratio, again.cost.added_ns, again.cost.units)
    assert bare.cost.mean_step_ns == again.cost.mean_step_ns > 0
    assert (None, None) == (bare.missing, again.missing)
    assert {"blocks": 2, "steps": 20, "sequences": 4}.items() <= dict(got.parameters).items()
    assert 6 == len(list(tmp_path.glob("round-*/*/*/run.json")))


def test_a_condition_that_fails_is_told_with_what_its_process_said_and_the_others_go_on(tmp_path):
    """A Python that cannot start writes why to its standard error, which is kept from ours."""
    got = measure(_loop(), (BARE, BROKEN, AGAIN), 2, tmp_path, _nothing, _nothing)
    bare, broken, again = got.conditions
    assert broken.cost is None
    assert re.match(r"failed in round 1: under broken the loop's process ended with exit code \d+: \S", broken.missing)
    assert (2, 2) == (bare.cost.units, again.cost.units)


def test_a_bare_loop_that_fails_ends_it_with_its_own_message(tmp_path):
    """Wrong tokens: times of such a loop are no result."""
    with pytest.raises(ScenarioFailed, match="exit code 5: fdprof: unfenced: first wrong value at step 0"):
        measure(_loop(mode="unfenced"), (BARE, AGAIN), 2, tmp_path, _nothing, _nothing)


@pytest.mark.parametrize("setting", SETTINGS[1:], ids=lambda setting: setting.name)
def test_a_condition_that_cannot_run_here_is_listed_with_the_tracers_own_reason(tmp_path, setting):
    """Never left out: name, no numbers, and why."""
    reason = missing_here(setting, _loop())
    if reason is None:
        pytest.skip(f"{setting.name} can run here")
    got = measure(_loop(), (BARE, setting), 1, tmp_path, _nothing, _nothing)
    (condition,) = [each for each in got.conditions if each.name == setting.name]
    assert (None, reason) == (condition.cost, condition.missing)
    in_process = [each for each in got.conditions if each.name.startswith("fdprof-")]
    assert ([reason] * 2 if setting.name == "fdprof" else []) == [each.missing for each in in_process]


def _requested(setting, folder):
    return Request(_loop().command(folder), folder, 60.0, environment=setting.environment)


def _require(name, folder):
    """Skip where this tracer cannot run here."""
    setting = next(setting for setting in SETTINGS if setting.name == name)
    if setting.tracer not in plugins.names("tracers"):
        pytest.skip(f"there is no tracer {setting.tracer} yet")
    problem = plugins.load("tracers", setting.tracer).missing(_requested(setting, folder))
    if problem is not None:
        pytest.skip(str(problem))
    return setting


@pytest.mark.parametrize("name", ["nvtx", "fdprof", "nsys-graph", "nsys-node", "torch"])
def test_a_real_tracer_changes_no_virtual_time(tmp_path, name):
    """Our ruler is the run's own recorder, so a capture without a device row serves as well."""
    setting = _require(name, tmp_path)
    run, tool = run_once(_loop(), setting, tmp_path / "traced")
    bare, _ = run_once(_loop(), BARE, tmp_path / "bare")
    assert tool
    assert [b.log.step_starts_ns.tolist() for b in bare.blocks] == [b.log.step_starts_ns.tolist() for b in run.blocks]


def test_a_tracer_that_traced_nothing_is_no_measurement(tmp_path):
    """The simulator does not import Paddle, so its profiler never starts: a ratio of 1 would be a lie."""
    setting = _require("paddle", tmp_path)
    with pytest.raises(ScenarioFailed, match=r"left no file, so nothing was traced: .*did not import paddle"):
        run_once(_loop(), setting, tmp_path / "traced")


def test_a_capture_without_a_cuda_call_is_no_measurement_where_there_must_be_some(tmp_path):
    """As where another tool holds CUPTI: ranges are there, and the loop ran as if bare."""
    setting = _require("fdprof", tmp_path)
    (tmp_path / "runs").mkdir()
    with pytest.raises(ScenarioFailed, match=r"under fdprof .* traced no CUDA call"):
        run_under(setting, _loop().command(tmp_path / "runs"), 60.0, traces_cuda=True)


@pytest.mark.parametrize("tracer", ["fdprof", "torch", "nsys"])
def test_the_inflation_of_a_loop_is_measured_in_turns_by_its_own_recorder(tmp_path, tracer):
    """Virtual time: exactly 1, and one round gives no interval."""
    name = "nsys-graph" if tracer == "nsys" else tracer
    setting = _require(name, tmp_path)
    lines = []
    request = _requested(setting, tmp_path)
    got = measured_inflation(request, tracer, 1, loop=_loop(), progress=lines.append)
    assert (1.0, None) == (got.ratio, got.interval)
    how = (
        f"measured in 1 round of a process bare and one under {tracer}, of the same kernels, by the run's own recorder"
    )
    assert how == got.how
    first = "inflation, calibration: bare, for all rounds"
    assert [first, "inflation, round 1 of 1: bare", f"inflation, round 1 of 1: {tracer}"] == lines


MARKED = """
import time, nvtx
for step in range(40):
    with nvtx.annotate("decode_step"):
        end = time.perf_counter_ns() + 200_000
        while time.perf_counter_ns() < end:
            pass
"""


def test_the_inflation_of_a_command_is_measured_by_its_marked_steps(tmp_path):
    """Ranges alone on both sides, of steps of 200 µs: the ratio is near 1, on a machine with two busy cores too."""
    setting = _require("nvtx", tmp_path)
    command = (sys.executable, "-c", MARKED)
    request = Request(command, tmp_path, 60.0, environment=setting.environment)
    got = measured_inflation(request, "fdprof", 1)
    assert 0.2 < got.ratio < 5
    assert "with its ranges alone" in got.how and "by the ranges that mark the steps" in got.how


# One calibration, bare

SITE = """
import dataclasses, os
import fdprof.session
from fdprof import collector
from fdprof.backends import sim

calibrate, load = fdprof.session.calibrate, sim.load_profile

def told(*arguments):
    with open(os.environ["CALIBRATED"], "a") as file:
        file.write(os.environ.get("LONGER_GAPS_NS", "bare") + "\\n")
    return calibrate(*arguments)

def with_longer_gaps(name):
    profile = load(name)
    gap = profile.card.kernel_gap_ns + int(os.environ.get("LONGER_GAPS_NS", "0"))
    return dataclasses.replace(profile, card=dataclasses.replace(profile.card, kernel_gap_ns=gap))

class Collector(collector.Collector):
    def __init__(self):
        super().__init__(cuda=False)

fdprof.session.calibrate, sim.load_profile, collector.Collector = told, with_longer_gaps, Collector
"""
SLOWER = Setting("slower", "gaps between kernels 1 us longer", None, environment=(("LONGER_GAPS_NS", "1000"),))
"""What a tracer does to the device, in virtual time."""


@pytest.fixture
def calibrations(tmp_path, monkeypatch):
    """Return who calibrated so far, of the processes that are started from here; a collector in them traces no CUDA."""
    site, log = tmp_path / "site", tmp_path / "calibrated"
    site.mkdir()
    (site / "sitecustomize.py").write_text(SITE, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.setenv("CALIBRATED", str(log))
    return lambda: log.read_text().split()


def _bound_by_the_device():
    """A loop that the host keeps up with: a step takes the device's 1 ms of 20 kernels, and its copies, some 10 us."""
    return _loop(mode="overlap", schedule_us=0, save_output_us=0)


def test_what_a_tracer_costs_the_device_is_not_calibrated_away(tmp_path, calibrations):
    """20 kernels and the update have 20 gaps between them, each 1 us longer: 20 us more a step.

    Behind the update come copies.  A bare process calibrated, once, and all five runs are of its kernels.
    """
    got = measure(_bound_by_the_device(), (BARE, SLOWER), 2, tmp_path / "runs", _nothing, _nothing)
    bare, slower = got.conditions
    assert 1_010_000 == pytest.approx(bare.cost.mean_step_ns, rel=1e-3)
    assert 20_000 == slower.cost.added_ns
    assert ["bare"] == calibrations()
    runs = [store.load(folder.parent) for folder in (tmp_path / "runs").glob("*/**/run.json")]
    assert (5, 1) == (len(runs), len({run.work for run in runs}))
    assert runs[0].work is not None


def test_a_loop_that_has_its_work_is_not_calibrated_again(tmp_path, calibrations):
    """Neither for overhead nor for an inflation."""
    loop = calibrated(_bound_by_the_device(), tmp_path / "first")
    assert loop == calibrated(loop, tmp_path / "second")
    measure(loop, (BARE,), 1, tmp_path / "runs", _nothing, _nothing)
    assert ["bare"] == calibrations()


def test_our_collector_and_the_blocks_of_one_process_run_the_bare_processs_kernels(tmp_path, calibrations):
    """In processes of their own and in one: nobody else calibrates.  Two pairs of blocks a round."""
    setting = _require("fdprof", tmp_path)
    got = measure(_bound_by_the_device(), (BARE, setting), 1, tmp_path / "runs", _nothing, _nothing)
    assert [None] * 4 == [condition.missing for condition in got.conditions]
    assert ["bare", "fdprof", "fdprof-in-process", "fdprof-stopped"] == [each.name for each in got.conditions]
    assert [1.0] * 4 == [condition.cost.ratio.value for condition in got.conditions]
    assert ["bare"] == calibrations()


def test_every_process_of_an_inflation_runs_the_bare_processs_kernels(tmp_path, calibrations):
    """Two rounds are four processes, of which none calibrates; traced ones take 20 us more of some 1,010."""
    setting = _require("fdprof", tmp_path)
    request = dataclasses.replace(_requested(setting, tmp_path), environment=SLOWER.environment)
    loop = _bound_by_the_device()
    got = measured_inflation(request, "fdprof", 2, loop=loop)
    assert 1 + 20 / 1010 == pytest.approx(got.ratio, abs=1e-4)
    assert ["bare"] == calibrations()


def test_a_worker_whose_work_is_of_another_loop_writes_so(tmp_path):
    """And runs nothing."""
    loop = calibrated(_loop(), tmp_path / "runs")
    request, result = tmp_path / "request.json", tmp_path / "result.json"
    params = dataclasses.asdict(dataclasses.replace(loop.params, kernels=2))
    document = request_document("stop_flag", "async", "sim", 2, params, {"steps": 5}, loop.work_of)
    request.write_text(json.dumps(document), encoding="utf-8")
    assert UsageError.exit_code == main([str(request), str(result)])
    with pytest.raises(ScenarioFailed, match="its kernels is 20, here it is 2"):
        read_result(result)


def test_ctrl_c_keeps_the_finished_rounds(tmp_path):
    """SIGINT during the second round: the first is reported.  The process says so by its line of progress."""
    code = """
import sys
from pathlib import Path
from fdprof.overhead import measure
from fdprof.params import Extent, LoopParams
from fdprof.traced_loop import BARE, Loop
loop = Loop("stop_flag", "async", "sim", 2, LoopParams(sequences=4), Extent(steps=20, warmup=3))
tell = lambda text: print(text, flush=True)
got = measure(loop, (BARE,), 1000, Path(sys.argv[1]), tell, tell)
print("result", got.rounds, got.interrupted, got.conditions[0].cost.units)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    for line in process.stdout:
        if line.startswith("round 2"):
            process.send_signal(signal.SIGINT)
            break
    out, err = process.communicate(timeout=60)
    assert "result 1 True 1" == out.strip().splitlines()[-1], err
    assert 0 == process.returncode, err


def test_blocks_before_with_and_after_the_collector_take_turns(make_session):
    """3 + 2 × 3 blocks behind the one that warms up; pairs C A, A C, C A, and nothing is left collecting."""
    calls = []
    session = make_session("stop_flag", steps=10, warmup=2)
    made = session.block

    def block(mode, index):
        calls.append(f"{mode} {index}")
        return made(mode, index)

    session.block = block
    got = alternate(session, "async", 3, lambda: calls.append("start"), lambda: calls.append("stop"))
    assert ["async 0", "async 0", "async 1", "async 2"] == calls[:4]
    pairs = [
        *("start", "async 0", "stop", "async 0"),
        *("async 1", "start", "async 1", "stop"),
        *("start", "async 2", "stop", "async 2"),
    ]
    assert pairs == calls[4:]
    assert [3, 3, 3] == [len(kind) for kind in (got.before, got.collecting, got.stopped)]
    assert {10} == {len(block) for kind in (got.before, got.collecting, got.stopped) for block in kind}


def test_blocks_with_wrong_tokens_are_no_result(make_session):
    """And the collector is stopped whatever happens."""
    calls = []
    with pytest.raises(WrongResult):
        alternate(make_session("stop_flag"), "unfenced", 2, lambda: calls.append("start"), lambda: calls.append("stop"))
    assert calls.count("start") == calls.count("stop")


def test_the_worker_writes_what_went_wrong(tmp_path):
    """An error of fdprof's in the process is one here, with its hint."""
    request, result = tmp_path / "request.json", tmp_path / "result.json"
    document = request_document("no_such_scenario", "async", "sim", 2, {}, {"steps": 5})
    request.write_text(json.dumps(document), encoding="utf-8")
    assert UsageError.exit_code == main([str(request), str(result)])
    with pytest.raises(ScenarioFailed, match="no_such_scenario") as raised:
        read_result(result)
    assert raised.value.hint


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"before": [[1]], "collecting": [[1]], "stopped": [[-1]]}', '{"before": 1}', "no JSON"]
)
def test_a_damaged_result_of_the_worker_is_an_error_that_names_it(tmp_path, text):
    """Not a traceback."""
    path = tmp_path / "result.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=re.escape(str(path))):
        read_result(path)


def test_every_condition_names_a_tracer_that_could_be_there():
    """And each has a summary and a name of its own."""
    assert len(SETTINGS) == len({setting.name for setting in SETTINGS})
    assert all(setting.summary for setting in SETTINGS)
    assert {None, "fdprof", "nsys", "torch", "paddle"} == {setting.tracer for setting in SETTINGS}
    assert (("FDPROF_COLLECT_CUDA", "0"),) == NVTX.environment


def test_errors_of_a_tracer_end_the_measuring_of_an_inflation(tmp_path):
    """A loop whose process fails: FdprofError with what it said, which the caller may turn into a note."""
    setting = _require("fdprof", tmp_path)
    with pytest.raises(FdprofError, match="exit code 5"):
        measured_inflation(_requested(setting, tmp_path), "fdprof", 1, loop=_loop(mode="unfenced"))
    assert not list(Path(tmp_path).glob("*.json"))
