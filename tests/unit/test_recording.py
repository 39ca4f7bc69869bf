# ruff: noqa: SIM300 - the expected value stands first
"""fdprof.cli.recording: Ctrl-C while a finished block is saved."""

import signal
import threading

import pytest

from fdprof.cli.recording import uninterrupted
from fdprof.supervision import Stopped, stoppable

pytestmark = pytest.mark.usefixtures("takes_signals")


def _interrupt():
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("by_another_thread", [True, False])
def test_ctrl_c_comes_after_what_must_not_be_interrupted(times, by_another_thread):
    """Whichever thread takes the signal, the work is done first, and then it is raised, once."""
    done = []
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        for _ in range(times):
            if by_another_thread:
                thread = threading.Thread(target=_interrupt)
                thread.start()
                thread.join()
            else:
                _interrupt()
        done.append("saved")
    assert ["saved"] == done
    assert before == signal.getsignal(signal.SIGINT)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
def test_another_signal_comes_after_it_too(number, code):
    """As `stoppable` takes it, in which blocks are recorded: 128 + the signal's number is to be passed on."""
    done = []
    with pytest.raises(Stopped) as stopped, stoppable():
        with uninterrupted():
            signal.raise_signal(number)
            done.append("saved")
        done.append("never")
    assert (["saved"], code) == (done, stopped.value.exit_code)


def test_without_ctrl_c_nothing_is_raised():
    """The usual case."""
    with uninterrupted():
        pass
