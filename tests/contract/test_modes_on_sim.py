# ruff: noqa: SIM300 - the expected value stands first
"""Every mode in every scenario on the simulator: one body, whatever files the two folders hold.

Each run is audited: buffers are poisoned before each copy, and every call is followed for hazards.
"""

import dataclasses
from functools import cache

import numpy as np
import pytest

from fdprof import plugins
from fdprof.analysis.results import result_of
from fdprof.backends.sim import SimBackend
from fdprof.model import Act, CallKind, Direction
from fdprof.params import Extent
from fdprof.session import Session

STEPS, WARMUP, SEQUENCES, MEAN_LENGTH = 40, 5, 6, 7
LAST_STEP = WARMUP + STEPS - 1
# Small enough that everything a scenario does happens several times.
OWN = {
    "insert_tasks": {"insert_every": 3, "prompt_tokens": 5, "sampling_params": 2},
    "logprobs": {"top_logprobs": 3},
    "token_count": {"kv_block_tokens": 3},
}
SCENARIOS = plugins.names("scenarios")
MODES = plugins.names("modes")
SAFE = [name for name in MODES if not plugins.load("modes", name).is_control]
CONTROLS = sorted(set(MODES) - set(SAFE))

every_scenario = pytest.mark.parametrize("scenario", SCENARIOS)
every_mode = pytest.mark.parametrize("mode", MODES)
every_safe_mode = pytest.mark.parametrize("mode", SAFE)


def _run(scenario, mode, audit=True, **changes):
    """Run one block on a new session and return the run with it."""
    fields = {"sequences": SEQUENCES, "mean_length": MEAN_LENGTH} | OWN.get(scenario, {}) | changes
    params = plugins.load("scenarios", scenario).params_type(**fields)
    session = Session(SimBackend(30), scenario, params, Extent(steps=STEPS, warmup=WARMUP), audit=audit)
    return dataclasses.replace(session.new_run(mode), blocks=(session.block(mode, 0),))


@pytest.fixture(scope="module")
def run_block():
    """The audited run of a scenario in a mode, made once: the simulator is deterministic."""
    return cache(_run)


def _lag(run, group):
    return 0 if group.needed_in_step else run.lag


def test_all_scenarios_and_modes_of_the_contract_are_there():
    """The names of product.md, section 2."""
    assert {"stop_flag", "token_count", "logprobs", "speculative", "hidden_sync", "insert_tasks"} <= set(SCENARIOS)
    assert {"sync", "sync-pinned", "async", "overlap", "overlap-copy-stream", "mapped", "unfenced"} <= set(MODES)


@every_scenario
@every_safe_mode
def test_values_are_right_and_the_stop_is_seen(run_block, scenario, mode):
    """Every value the host read is the reference's, and the loop ended because the host saw the stop."""
    tokens = run_block(scenario, mode).blocks[0].tokens
    assert (0, 0, None) == (tokens.stale_reads, tokens.wrong_reads, tokens.first_wrong)
    assert tokens.values == tokens.right
    assert tokens.stop_seen
    assert tokens.is_right


@every_scenario
@every_safe_mode
def test_no_hazard_is_reported_of_a_correct_mode(run_block, scenario, mode):
    """By the order of its calls every read, write and reuse is safe, whatever the times are."""
    assert () == result_of(run_block(scenario, mode)).hazards


@every_scenario
@every_safe_mode
@pytest.mark.parametrize("launch", ["kernels", "graph"])
@pytest.mark.parametrize("wait", ["spin", "blocking", "poll", "yield"])
def test_values_are_right_however_work_is_launched_and_waited_for(scenario, mode, launch, wait):
    """Neither changes what is computed; mapped memory cannot be slept on, and says so."""
    from fdprof.errors import UsageError

    if (mode, wait) == ("mapped", "blocking"):
        with pytest.raises(UsageError, match="no event that a thread could sleep on"):
            _run(scenario, mode, launch=launch, wait=wait)
        return
    tokens = _run(scenario, mode, launch=launch, wait=wait, kernels=2).blocks[0].tokens
    assert tokens.is_right


@every_scenario
@every_safe_mode
def test_values_are_right_when_times_vary(scenario, mode):
    """Heavy tails on both sides: now the host is late, now the device."""
    run = _run(scenario, mode, device_times="lognormal:1.5", host_times="lognormal:2", device_us=100.0)
    assert run.blocks[0].tokens.is_right
    assert () == result_of(run).hazards


@every_scenario
@every_safe_mode
def test_every_step_is_read_once_in_order(run_block, scenario, mode):
    """Each group to the host has one read of each step's value, `lag` steps later at most."""
    run = run_block(scenario, mode)
    reads = run.blocks[0].log.reads
    for number, group in enumerate(run.groups):
        if group.direction is Direction.TO_DEVICE:
            continue
        chosen = reads["group"] == number
        value_steps = reads["value_step"][chosen]
        assert list(range(LAST_STEP + 1)) == value_steps[: LAST_STEP + 1].tolist()
        assert len(set(value_steps.tolist())) == len(value_steps)
        assert (reads["step"][chosen] - value_steps <= _lag(run, group)).all()


@every_scenario
@every_safe_mode
def test_overrun_is_at_most_the_lag_times_the_rows(run_block, scenario, mode):
    """A mode that reads `lag` steps late computes at most that many tokens too many a row."""
    run = run_block(scenario, mode)
    assert run.blocks[0].tokens.overrun_tokens <= run.lag * SEQUENCES


@every_scenario
@pytest.mark.parametrize("mode", CONTROLS)
def test_the_negative_control_is_caught(run_block, scenario, mode):
    """Reads without a fence return other steps' values, and the result says so, by the values and by the order."""
    result = result_of(run_block(scenario, mode))
    assert result.stale_reads > 0
    assert result.values_right < result.values
    assert result.first_wrong is not None
    assert not result.is_right
    assert "read-before-fence" in {hazard.code.value for hazard in result.hazards}


@every_scenario
@every_mode
def test_every_declared_tensor_is_moved_as_often_as_its_group_and_nothing_else(run_block, scenario, mode):
    """To the host once for each update or preparation; to the device once for each insertion."""
    run = run_block(scenario, mode)
    log = run.blocks[0].log
    acts = [list(Act)[number] for number in log.journal["act"]]
    names = [log.tensor_names[number] if number >= 0 else None for number in log.journal["tensor"]]
    moved = [
        name
        for act, name in zip(acts, names, strict=True)
        if act in (Act.COPY, Act.FETCH, Act.UPLOAD, Act.STORE, Act.PUBLISH)
    ]
    inserted = len([step for step in log.journal["step"] if step]) and len(
        {step for act, step in zip(acts, log.journal["step"].tolist(), strict=True) if act in (Act.UPLOAD, Act.STORE)}
    )
    for group in run.groups:
        times = inserted if group.direction is Direction.TO_DEVICE else acts.count(Act(group.made_by.value))
        assert [times] * len(group.tensors) == [moved.count(tensor.name) for tensor in group.tensors]
    assert {tensor.name for group in run.groups for tensor in group.tensors} >= set(moved)


@every_scenario
@every_safe_mode
def test_the_result_covers_all_counted_steps_and_every_transfer(run_block, scenario, mode):
    """Windows are positive, device busy and idle make them up, and each tensor has a row with its own memory."""
    result = result_of(run_block(scenario, mode))
    times = result.times
    assert STEPS == result.summaries["window_ns"].count
    assert (times.window_ns > 0).all()
    assert np.array_equal(times.window_ns, times.device_busy_ns + times.device_idle_ns)
    assert (times.device_idle_ns >= 0).all()
    declared = [tensor.name for group in result.run.groups for tensor in group.tensors]
    assert declared == [transfer.name for transfer in result.transfers]
    for transfer in result.transfers:
        assert transfer.copy_ns is None
        # What the kernel itself writes to mapped memory is started by no call.
        assert (transfer.issue_ns is None) == (transfer.memory == "mapped")


@every_scenario
@every_mode
def test_kernels_run_in_order_and_never_together(run_block, scenario, mode):
    """The compute stream is in order: each kernel starts after the one before has ended."""
    kernels = run_block(scenario, mode).blocks[0].log.kernels
    assert (kernels["start_ns"][1:] >= kernels["end_ns"][:-1]).all()
    assert (kernels["end_ns"] >= kernels["start_ns"]).all()
    assert (kernels["start_ns"] > 0).all()


@every_scenario
@every_mode
def test_two_sessions_record_the_same(run_block, scenario, mode):
    """The simulator is deterministic: not a ns differs between two runs."""
    first, again = run_block(scenario, mode).blocks[0], _run(scenario, mode).blocks[0]
    assert first.log == again.log
    assert first.tokens == again.tokens


@every_scenario
@every_safe_mode
def test_the_audit_costs_no_virtual_time(run_block, scenario, mode):
    """A run without it has the same calls at the same times."""
    assert run_block(scenario, mode).blocks[0].log.calls == _run(scenario, mode, False).blocks[0].log.calls


@every_scenario
@every_safe_mode
def test_no_step_is_shorter_on_average_than_the_limit(run_block, scenario, mode):
    """The limit is the shortest possible step, so no safe mode has an efficiency above one."""
    assert 0 < result_of(run_block(scenario, mode)).efficiency <= 1


@every_scenario
@every_safe_mode
def test_every_wait_in_a_counted_step_knows_what_it_was_for(run_block, scenario, mode):
    """A wait is for a group's values, or guards a source buffer that is to be rewritten."""
    run = run_block(scenario, mode)
    log = run.blocks[0].log
    waits = log.waits
    kinds = [log.call_sites[call].kind for call in log.calls["call"]]
    assert kinds.count(CallKind.WAIT) == len(waits)
    if not any(group.direction is Direction.TO_DEVICE for group in run.groups):
        assert (waits["group"] >= 0).all()
    assert (waits["cpu_ns"] <= waits["end_ns"] - waits["start_ns"]).all()
