"""The command line on a real GPU: tokens right where they must be, and the negative control caught."""

# ruff: noqa: SIM300
import json

import pytest

from fdprof import plugins

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("scenario", plugins.names("scenarios"))
@pytest.mark.parametrize("mode", ["sync", "sync-pinned", "async", "overlap", "overlap-copy-stream", "mapped"])
def test_every_fenced_mode_has_the_reference_tokens(run_cli, scenario, mode):
    """Fenced modes read no stale value, and overrun no more than the lag allows."""
    done = run_cli("run", scenario, "--mode", mode, "--backend", "paddle", "--steps", "60", "--no-save", "--json")
    assert 0 == done.exit_code
    document = json.loads(done.stdout)
    assert document["tokens_right"]
    assert 0 == document["stale_reads"]
    assert document["overrun_tokens"] <= 64 * plugins.load("modes", mode).lag


def test_the_unfenced_mode_is_caught(run_cli):
    """1,000 µs of device work against 200 µs of host work: every read comes before its copy."""
    options = ("--mode", "unfenced", "--backend", "paddle", "--steps", "60", "--no-save", "--json")
    done = run_cli("run", "stop_flag", *options)
    assert 5 == done.exit_code
    document = json.loads(done.stdout)
    assert document["reads"] == document["stale_reads"]


def test_the_gpus_clocks_are_read_around_each_block(run_cli):
    """NVML gives clocks of the card that runs the loop: two states a block, of an SM clock that a card can have."""
    options = ("--backend", "paddle", "--steps", "20", "--blocks", "6", "--no-save", "--json")
    done = run_cli("compare", "async", "overlap", *options)
    document = json.loads(done.stdout)
    states = [state for side in ("baseline", "candidate") for block in document[side]["gpu"] for state in block]
    assert 24 == len(states)
    assert all(100 < state["sm_clock_mhz"] < 4000 for state in states)
    assert all(state["throttle"] is not None for state in states)


def test_a_mode_is_not_faster_than_itself(run_cli):
    """The same mode on both sides: same or inconclusive, tokens equal."""
    done = run_cli("compare", "async", "async", "--backend", "paddle", "--no-save", "--json")
    document = json.loads(done.stdout)
    assert document["verdict"] in ("same", "inconclusive")
    assert document["tokens_equal"]


def test_async_is_faster_than_sync_and_removes_the_wait(run_cli):
    """1,000 µs of device work, 200 µs of host work: the blocking copies cost a quarter of the step."""
    done = run_cli("compare", "sync", "async", "--backend", "paddle", "--no-save", "--json")
    assert 0 == done.exit_code
    document = json.loads(done.stdout)
    assert ("faster", "removed") == (document["verdict"], document["removed_or_moved"])
    assert 0 == document["bridge_residual_ns"]


def test_a_wait_beyond_the_timeout_is_an_error_that_names_it(run_cli):
    """A step of 2 s of device work with a timeout of 0.2 s ends with exit 4 and says how long was waited."""
    options = ("--backend", "paddle", "--device-us", "2000000", "--kernels", "1", "--timeout", "0.2", "--steps", "2")
    done = run_cli("run", "stop_flag", *options, "--warmup", "0", "--no-save")
    assert 4 == done.exit_code
    assert "0.2 s" in done.stderr
