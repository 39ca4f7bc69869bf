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


def test_a_wait_beyond_the_timeout_is_an_error_that_names_it(run_cli):
    """A step of 2 s of device work with a timeout of 0.2 s ends with exit 4 and says how long was waited."""
    options = ("--backend", "paddle", "--device-us", "2000000", "--kernels", "1", "--timeout", "0.2", "--steps", "2")
    done = run_cli("run", "stop_flag", *options, "--warmup", "0", "--no-save")
    assert 4 == done.exit_code
    assert "0.2 s" in done.stderr
