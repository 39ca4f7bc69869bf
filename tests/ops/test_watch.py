"""The watchdog that bounds blocking calls; it needs no GPU."""

import subprocess
import sys
import time
from typing import Any

import pytest

from fdprof.errors import ScenarioFailed

LIMIT_S = 60.0  # only ends a test that would otherwise never end


def spin_until_fired(ops: Any) -> None:
    end = time.monotonic() + LIMIT_S
    while not ops.watch_fired():
        assert time.monotonic() < end, "the watch never fired"


def test_a_guard_over_a_call_that_ends_in_time_does_nothing(ops: Any) -> None:
    """The normal case: no error, no trace."""
    with ops.guard(LIMIT_S):
        pass
    assert ops.watch_fired() is False


def test_a_guard_raises_at_its_end_when_the_call_took_longer(ops: Any) -> None:
    """The call itself is not broken off: it returned, late."""
    with pytest.raises(ScenarioFailed, match="did not end within its timeout"), ops.guard(0.001):
        spin_until_fired(ops)
    assert ops.watch_fired() is False


def test_a_late_guard_does_not_hide_another_error(ops: Any) -> None:
    """The error of the guarded call is the more telling one."""
    with pytest.raises(KeyError), ops.guard(0.001):
        spin_until_fired(ops)
        raise KeyError("of the call")


def test_guards_nest(ops: Any) -> None:
    """An inner watch that fired leaves the outer one as it was."""
    with ops.guard(LIMIT_S):
        with pytest.raises(ScenarioFailed), ops.guard(0.001):
            spin_until_fired(ops)
        assert ops.watch_fired() is False


def test_kernels_of_the_next_run_are_not_ended_by_an_earlier_timeout(ops: Any, make_loop: Any) -> None:
    """The abort word is cleared when the watch ends, so kernels last their time again."""
    with pytest.raises(ScenarioFailed), ops.guard(0.001):
        spin_until_fired(ops)
    loop = make_loop(kernels=1, kernel_ns=1_000_000)
    loop.native.forward()
    ops.synchronize_current(LIMIT_S)
    start_ns, end_ns = loop.values("stamps")[0, 0]
    assert end_ns - start_ns >= 1_000_000


def test_an_end_without_a_begin_does_nothing(ops: Any) -> None:
    """It returns that nothing had passed."""
    assert ops.watch_end() is False


def test_a_call_that_never_returns_ends_the_process_with_code_4() -> None:
    """The last resort, for a device that hangs in work of others: one line says why."""
    pytest.importorskip("paddle", reason="the ops need Paddle, which is not installed")
    program = (
        "import threading\n"
        "from fdprof.ops import ops\n"
        "ops.set_watch_grace(0.05)\n"
        "ops.watch_begin(0.01)\n"
        f"threading.Event().wait({LIMIT_S})\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 4, done.stderr
    assert "fdprof: a wait did not end within 0.01 s" in done.stderr
