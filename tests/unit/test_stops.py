"""Signals to fdprof between and behind the commands that it runs: what is half done is cleared away, or saved first."""

# ruff: noqa: SIM300
import os
import signal
import subprocess
import sys

import pytest

from fdprof import supervision
from fdprof.supervision import Stopped, run, stoppable

pytestmark = pytest.mark.usefixtures("takes_signals")


def test_a_signal_stops_at_once_where_nothing_is_held():
    """SIGTERM, 15: a shell's exit code is 128 + 15; the handlers are as before afterwards."""
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Stopped) as stopped, stoppable():
        os.kill(os.getpid(), signal.SIGTERM)
    assert 143 == stopped.value.exit_code
    assert before == signal.getsignal(signal.SIGTERM)
    assert None is supervision._stops


def test_behind_a_command_a_signal_waits_until_what_was_recorded_is_saved():
    """The end of a command begins to hold, and `release` ends it."""
    saved = []
    with pytest.raises(Stopped) as stopped, stoppable() as stops:
        run(("true",), limit_s=60)
        os.kill(os.getpid(), signal.SIGTERM)
        saved.append("the capture")
        stops.release()
        saved.append("never")
    assert (143, ["the capture"]) == (stopped.value.exit_code, saved)


def test_timeouts_second_signal_is_no_second_one():
    """timeout(1) sends SIGTERM to the process and to its group."""
    with pytest.raises(Stopped), stoppable() as stops:
        run(("true",), limit_s=60)
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        stops.release()


def test_the_next_command_is_not_started_when_a_signal_came(tmp_path):
    """Held since the first command, it stops before the second."""
    with pytest.raises(Stopped), stoppable():
        run(("true",), limit_s=60)
        os.kill(os.getpid(), signal.SIGINT)
        run(("touch", str(tmp_path / "started")), limit_s=60)
    assert [] == list(tmp_path.iterdir())


def test_an_ignored_signal_stays_ignored(monkeypatch):
    """As under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stoppable():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_an_output_that_was_closed_ends_with_141():
    """A shell's exit code for SIGPIPE; 1 would be a gate that failed.  No reader is there before the first byte."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "fdprof", "scenarios"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, timeout=120)
    os.close(write)
    assert (141, "") == (done.returncode, done.stderr)


def test_a_signal_while_left_over_processes_are_ended_is_not_lost(tmp_path):
    """The command has ended well; a process that it left is being ended when SIGTERM comes, and it counts."""
    (tmp_path / "left.sh").write_text(
        # It takes the first signal as its cue to send fdprof one, and goes by the second, SIGKILL.
        f"trap 'kill -TERM {os.getpid()}' TERM\ntouch ready\nwhile :; do read -r -t 1000 <> fifo; done\n"
    )
    os.mkfifo(tmp_path / "fifo")
    wait = "while [ ! -e ready ]; do :; done"
    command = ("bash", "-c", f"cd {tmp_path}; setsid bash left.sh & cd {tmp_path}; {wait}")
    with pytest.raises(Stopped) as stopped, stoppable() as stops:
        outcome = run(command, limit_s=60, grace_s=1)
        assert 0 == outcome.exit_code
        stops.release()
    assert 143 == stopped.value.exit_code
