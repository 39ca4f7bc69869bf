# ruff: noqa: SIM300 - the expected value stands first
"""Every mode in every scenario on the simulator: one body, whatever files the two folders hold."""

import dataclasses

import numpy as np
import pytest

from fdprof import plugins
from fdprof.analysis.results import result_of
from fdprof.model import CallKind

STEPS, WARMUP, SEQUENCES, MEAN_LENGTH = 40, 5, 6, 7
LAST_STEP = WARMUP + STEPS - 1
UNSAFE = {"unfenced"}

every_scenario = pytest.mark.parametrize("scenario", plugins.names("scenarios"))
every_mode = pytest.mark.parametrize("mode", plugins.names("modes"))
every_safe_mode = pytest.mark.parametrize("mode", [name for name in plugins.names("modes") if name not in UNSAFE])


@pytest.fixture
def run_block(make_session):
    """Run one block on a new session and return the run with it."""

    def run(scenario, mode):
        session = make_session(scenario, steps=STEPS, warmup=WARMUP, sequences=SEQUENCES, mean_length=MEAN_LENGTH)
        return dataclasses.replace(session.new_run(mode), blocks=(session.block(mode, 0),))

    return run


@every_scenario
@every_safe_mode
def test_tokens_are_right_and_the_stop_is_seen(run_block, scenario, mode):
    """Every value the host read is the reference's, and the loop ended because the host saw the stop."""
    tokens = run_block(scenario, mode).blocks[0].tokens
    assert (0, 0, None) == (tokens.stale_reads, tokens.wrong_reads, tokens.first_wrong)
    assert tokens.values == tokens.right
    assert tokens.stop_seen
    assert tokens.is_right


@every_scenario
@every_safe_mode
def test_every_step_is_read_once_in_order(run_block, scenario, mode):
    """Each group has one read of each step's value, `lag` steps later at most."""
    run = run_block(scenario, mode)
    reads = run.blocks[0].capture.reads
    for group in range(len(run.groups)):
        chosen = reads["group"] == group
        value_steps = reads["value_step"][chosen]
        assert list(range(LAST_STEP + 1)) == value_steps[: LAST_STEP + 1].tolist()
        assert len(set(value_steps.tolist())) == len(value_steps)
        assert (reads["step"][chosen] - value_steps <= run.lag).all()


@every_scenario
@every_safe_mode
def test_overrun_is_at_most_the_lag_times_the_rows(run_block, scenario, mode):
    """A mode that reads `lag` steps late computes at most that many tokens too many a row."""
    run = run_block(scenario, mode)
    assert run.blocks[0].tokens.overrun_tokens <= run.lag * SEQUENCES


@every_scenario
@pytest.mark.parametrize("mode", sorted(UNSAFE))
def test_the_negative_control_is_caught(run_block, scenario, mode):
    """Reads without a fence return other steps' values, and the result says so."""
    result = result_of(run_block(scenario, mode))
    assert result.stale_reads > 0
    assert result.values_right < result.values
    assert result.first_wrong is not None
    assert not result.is_right


@every_scenario
@every_mode
def test_every_declared_tensor_is_transferred_once_a_step_and_nothing_else(run_block, scenario, mode):
    """The copies of the recording are the scenario's declared transfers."""
    run = run_block(scenario, mode)
    capture = run.blocks[0].capture
    copied = [
        capture.call_sites[call].subject
        for call in capture.calls["call"]
        if capture.call_sites[call].kind in (CallKind.COPY, CallKind.BLOCKING_COPY)
    ]
    launched = len(capture.step_starts_ns)
    declared = [tensor.name for group in run.groups for tensor in group.tensors]
    assert dict.fromkeys(declared, launched) == {name: copied.count(name) for name in set(copied)}


@every_scenario
@every_mode
def test_the_result_covers_all_counted_steps_and_every_transfer(run_block, scenario, mode):
    """Windows are positive, device busy and idle make them up, and each tensor has a row."""
    result = result_of(run_block(scenario, mode))
    ledger = result.ledger
    assert STEPS == result.summaries["window_ns"].count
    assert (ledger.window_ns > 0).all()
    assert np.array_equal(ledger.window_ns, ledger.device_busy_ns + ledger.device_idle_ns)
    assert (ledger.device_idle_ns >= 0).all()
    declared = [tensor.name for group in result.run.groups for tensor in group.tensors]
    assert declared == [transfer.name for transfer in result.transfers]
    assert all(transfer.issue_ns is not None and transfer.copy_ns is None for transfer in result.transfers)


@every_scenario
@every_mode
def test_kernels_run_in_order_and_never_together(run_block, scenario, mode):
    """The compute stream is in order: each kernel starts after the one before has ended."""
    kernels = run_block(scenario, mode).blocks[0].capture.kernels
    assert (kernels["start_ns"][1:] >= kernels["end_ns"][:-1]).all()
    assert (kernels["end_ns"] >= kernels["start_ns"]).all()
    assert (kernels["start_ns"] > 0).all()


@every_scenario
@every_mode
def test_two_sessions_record_the_same(run_block, scenario, mode):
    """The simulator is deterministic: not a ns differs between two runs."""
    first, second = run_block(scenario, mode).blocks[0], run_block(scenario, mode).blocks[0]
    assert first.capture == second.capture
    assert first.tokens == second.tokens


@every_scenario
@every_safe_mode
def test_no_step_is_shorter_on_average_than_the_limit(run_block, scenario, mode):
    """The limit is the shortest possible step, so no safe mode has an efficiency above one."""
    assert 0 < result_of(run_block(scenario, mode)).efficiency <= 1
