"""Runs somebody's command to its end, bounded by a limit, and says how it ended.

The command gets a session of its own.  What the terminal sends to a whole process group then reaches it once, from
here, and not a second time that would cut a profiler's own ending short; nsys gives its target a session of its own
too.  Standard input is passed through and can be read, because a terminal that is not a session's own stops no reader
of it; only /dev/tty is not there.  Ctrl-Z, a hang-up and SIGTERM are passed on, so that none of them leaves the
command running by itself.

Whatever the command started ends with it: what still runs when it has ended is ended too, daemons included, since it
would hold the device and disturb what is measured next.  Nothing here waits on pipes, which a daemon could hold open.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import FrameType

from fdprof.errors import UsageError
from fdprof.units import printable

LIMIT_EXIT_CODE = 124
"""As of timeout(1)."""

_SIGNALLED = 128  # a shell's exit code for a command that signal n ended is 128 + n

_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37  # linux/prctl.h
_INSTALLED = ("target-", "host-", "linux-desktop-")
"""What folders of NVIDIA's profilers begin with, beside one another in the folder of a version."""

_LONGEST_S = 3600.0  # of one select()
_LOOK_S = 0.05  # between looks at processes that are no children of ours: nothing else tells of their end
_SAME_S = 0.3  # timeout(1) sends its signal twice, to the process and to its group: that is no second Ctrl-C
_LEFT_S = 0.5  # what the command left may still be ending by itself
_GONE_S = 5.0  # how long a killed process may take to go


class Stopped(KeyboardInterrupt):
    """A signal stopped what was being done; `exit_code` is the one to pass on."""

    def __init__(self, exit_code: int) -> None:
        super().__init__()
        self.exit_code = exit_code


class Stops:
    """Takes the signals that stop fdprof itself, between and behind the commands that it runs.

    While held, which is from a command's end on, the first is kept until `release`: what was recorded is saved first.
    A second Ctrl-C stops at once.
    """

    def __init__(self) -> None:
        self._is_held = False
        self._came: int | None = None
        self._came_s = 0.0

    def hold(self) -> None:
        self._is_held = True

    def release(self) -> None:
        """Hold no longer; raise Stopped where a signal came meanwhile."""
        self._is_held = False
        came, self._came = self._came, None
        if came is not None:
            raise Stopped(_SIGNALLED + came)

    def take(self, number: int, _: FrameType | None) -> None:
        """Stop, or keep the signal; timeout(1) sends its own twice, which is no second one."""
        now = time.monotonic()
        is_first = self._came is None
        if is_first:
            self._came, self._came_s = number, now
        if (is_first and not self._is_held) or (number == signal.SIGINT and now - self._came_s >= _SAME_S):
            raise Stopped(_SIGNALLED + number)


@contextlib.contextmanager
def stoppable() -> Iterator[Stops]:
    """Make SIGINT, SIGTERM and SIGHUP raise Stopped, so that what is half done is cleared away."""
    global _stops
    stops = Stops()
    numbers = [n for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) != signal.SIG_IGN]
    before = {number: signal.signal(number, stops.take) for number in numbers}
    _stops = stops
    try:
        yield stops
    finally:
        _stops = None
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


_stops: Stops | None = None


class Ended(Enum):
    """What ended a command."""

    EXIT = "exit"  # by itself, whatever its exit code
    SIGNAL = "signal"  # a signal that did not come from here
    LIMIT = "limit"  # it ran past its limit and was ended
    INTERRUPTED = "interrupted"  # Ctrl-C, or another signal to fdprof, which was passed on


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended. `exit_code` is the one to pass on: 128 + the signal's number where a signal ended it.

    `left` names what it had started and left running, which was ended.
    """

    exit_code: int
    ended: Ended
    left: tuple[str, ...] = ()


def run(
    command: Sequence[str],
    *,
    limit_s: float,
    environment: Sequence[tuple[str, str]] = (),
    quiet: bool = False,
    ends_itself: bool = False,
    grace_s: float = 10.0,
    finish_s: float = 60.0,
    tell: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Run a command to its end and return how it ended; UsageError when it cannot be started.

    `environment` are more variables.  With `quiet` its standard output goes to standard error.

    At the limit and at Ctrl-C it gets SIGINT first: engines and Python's own clean-up flush on it, and profilers write
    their file at an orderly exit.  After `grace_s` SIGTERM, for what ignores SIGINT, as a shell's background jobs do;
    after as long again SIGKILL.  A second Ctrl-C is SIGKILL at once.  Another signal to fdprof is passed on likewise.

    `ends_itself` is for a profiler that starts the command itself and writes its file when that has ended: the signals
    then go to all that it started but its own programs, which are those of its folder, and it gets `finish_s` to
    finish.  If only its own programs are left at the limit, the command had ended in time, and that is no LIMIT.

    Call it from the main thread, which is the one that Python's signal handlers run in.
    """
    require_command(command[0], environment)
    if _stops is not None:
        _stops.release()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    with _orphans_come_here(), _Signals() as signals:
        family = _Family()
        process = _start(command, {**os.environ, **dict(environment)}, quiet)
        try:
            watch = _Watch(process, family, signals, ends_itself, grace_s, finish_s, tell)
            ended, exit_code = watch.to_the_end(time.monotonic() + limit_s)
            left = watch.end_what_is_left()
            late = watch.came_late(ended)
        finally:  # also on a bug: nothing of it stays behind
            family.kill()
            if process.poll() is None:
                process.kill()
            process.wait()
            family.reap(process.pid)
            if _stops is not None:
                _stops.hold()
    if late is not None:  # it came when the command had ended: nothing of it was interrupted, but fdprof is to stop
        signal.raise_signal(late)
    return Outcome(exit_code, ended, left)


def require_command(name: str, environment: Sequence[tuple[str, str]] = ()) -> str:
    """Return the path of a command; UsageError when there is none that can be run."""
    found = shutil.which(name, path=dict(environment).get("PATH")) if name and "\0" not in name else None
    if found is not None:
        return found
    file = Path(name) if name and "\0" not in name else None
    if file is not None and file.is_dir():
        raise UsageError(f"{name} is a folder, expected a command", "give the command as you would type it")
    if file is not None and file.is_file():
        if "/" in name:
            raise UsageError(f"{name} is not executable", f"chmod +x {name}, or name its interpreter: python {name}")
        raise UsageError(f"no command is named {name!r}", f"there is a file of that name: ./{name}, or python {name}")
    raise UsageError(f"no command is named {name!r}", "is it installed, and its folder on PATH?")


def _start(command: Sequence[str], variables: dict[str, str], quiet: bool) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command, env=variables, stdout=2 if quiet else None, start_new_session=True, close_fds=False
        )
    except FileNotFoundError as error:  # it is there itself
        raise UsageError(f"cannot run {command[0]}: its interpreter is not there", "see its first line") from error
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        is_script = isinstance(error, OSError) and error.errno == errno.ENOEXEC
        hint = f"its first line names no interpreter: sh {command[0]}" if is_script else "does it run without fdprof?"
        raise UsageError(f"cannot run {command[0]}: {why}", hint) from error


class _Watch:
    """One command from its start to its end."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        family: _Family,
        signals: _Signals,
        ends_itself: bool,
        grace_s: float,
        finish_s: float,
        tell: Callable[[str], None],
    ) -> None:
        self._process, self._family, self._signals = process, family, signals
        self._ends_itself, self._grace_s, self._finish_s, self._tell = ends_itself, grace_s, finish_s, tell
        self._came: int | None = None  # the first signal to fdprof
        self._came_s = 0.0
        self._is_ending = False
        self._is_hurried = False  # by a signal while the command is being ended

    def to_the_end(self, deadline: float) -> tuple[Ended, int]:
        """Return what ended the command, and the exit code to pass on."""
        while not self._has_ended() and self._came is None:
            if time.monotonic() >= deadline:
                return self._at_the_limit(deadline + self._finish_s)
            self._wait(deadline)
        return self._by_itself() if self._came is None else self._interrupted(self._came)

    def came_late(self, ended: Ended) -> int | None:
        """Return the signal that came when the command had ended already."""
        self._wait(0)
        return self._came if ended in (Ended.EXIT, Ended.SIGNAL) else None

    def end_what_is_left(self) -> tuple[str, ...]:
        """End what the command left running, and return its names."""
        if self._are_gone(self._family.members, _LEFT_S):
            return ()
        left = self._family.members()
        theirs = (
            set(self._targets()) if self._ends_itself else set(left)
        )  # a profiler's own programs are not the command's
        names = tuple(_name_of(pid) for pid in left if pid in theirs)
        _signal_all(left, signal.SIGTERM)
        _signal_all(left, signal.SIGCONT)
        if not self._are_gone(self._family.members, self._grace_s):
            self._family.kill()
        return names

    def _by_itself(self) -> tuple[Ended, int]:
        code = self._process.returncode
        return (Ended.SIGNAL, _SIGNALLED - code) if code < 0 else (Ended.EXIT, code)

    def _interrupted(self, number: int) -> tuple[Ended, int]:
        self._tell(f"{signal.Signals(number).name}: ending the command; a second signal kills it")
        self._end(number)
        return Ended.INTERRUPTED, _SIGNALLED + number

    def _at_the_limit(self, finished_by: float) -> tuple[Ended, int]:
        # A profiler that has just begun, or that is writing already, has no targets.
        while self._ends_itself and not self._targets() and time.monotonic() < finished_by:
            if self._has_ended():
                return self._by_itself()
            if self._came is not None:
                return self._interrupted(self._came)
            self._wait(time.monotonic() + _LOOK_S)
        self._tell("the limit is reached: ending the command")
        self._end(signal.SIGINT)
        return Ended.LIMIT, LIMIT_EXIT_CODE

    def _end(self, first: int) -> None:
        """End the command in the order that `run` describes, this signal first, and then a profiler around it."""
        self._is_ending = True
        for number in dict.fromkeys((first, signal.SIGTERM)):
            self._send(number)
            if self._are_gone(self._targets, self._grace_s):
                break
        else:
            _signal_all(self._targets(), signal.SIGKILL)
        until = time.monotonic() + (self._finish_s if self._ends_itself else _GONE_S)
        while not self._has_ended() and not self._is_hurried and time.monotonic() < until:
            self._wait(until)
        if not self._has_ended():
            self._family.kill()
            self._process.wait()

    def _send(self, number: int) -> None:
        """Send a signal as a terminal would, to the process group; beside a profiler, to each of the targets."""
        if self._ends_itself:
            _signal_all(self._targets(), number)
            _signal_all(self._targets(), signal.SIGCONT)
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)
            os.killpg(self._process.pid, signal.SIGCONT)  # one that is stopped would act on no signal

    def _targets(self) -> list[int]:
        """Return the processes that are to end first: the command itself, or what the profiler started of others'."""
        if not self._ends_itself:
            return [] if self._has_ended() else [self._process.pid]
        # A profiler's programs lie beside one another in one installation, nsys in target-linux-x64 and its importer in
        # host-linux-x64.
        own = _folder_of(self._process.pid)
        homes = {own, own.parent} if own is not None and own.name.startswith(_INSTALLED) else {own}
        members = ((pid, _folder_of(pid)) for pid in self._family.members() if pid != self._process.pid)
        return [pid for pid, its in members if its is not None and its not in homes and its.parent not in homes]

    def _are_gone(self, which: Callable[[], list[int]], within_s: float) -> bool:
        """Wait so long at most, less when hurried; return whether there are none of these any more."""
        until = time.monotonic() + within_s
        while which():
            if self._is_hurried or time.monotonic() >= until:
                return False
            self._wait(min(until, time.monotonic() + _LOOK_S))
        return True

    def _wait(self, until: float) -> None:
        """Sleep until then, or until a signal comes, of which a child's end is one."""
        for number in self._signals.wait(until - time.monotonic()):
            if number == signal.SIGTSTP:
                self._stop()
            elif number in _PASSED_ON:
                now = time.monotonic()
                if self._came is None:
                    self._came, self._came_s = number, now
                    self._is_hurried = self._is_ending
                elif now - self._came_s >= _SAME_S:
                    self._is_hurried = True
        self._family.reap(self._process.pid)

    def _stop(self) -> None:
        """Stop, with all that was started, as Ctrl-Z asks, and go on with it."""
        members = self._family.members()
        _signal_all(members, signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        _signal_all(members, signal.SIGCONT)

    def _has_ended(self) -> bool:
        return self._process.poll() is not None


class _Family:
    """Whatever was started from here since this was made, as /proc shows it: orphans of it are children of ours."""

    def __init__(self) -> None:
        self._before = frozenset(pid for pid, parent in _parents().items() if parent == os.getpid())

    def members(self) -> list[int]:
        """Return all processes of it that run, the older generations first."""
        children: dict[int, list[int]] = {}
        for pid, parent in _parents().items():
            children.setdefault(parent, []).append(pid)
        found = [pid for pid in children.get(os.getpid(), []) if pid not in self._before]
        for pid in found:  # it grows: breadth first
            found += children.get(pid, [])
        return [pid for pid in found if _is_running(pid)]

    def kill(self) -> None:
        """Kill all of it, what it starts meanwhile too."""
        until = time.monotonic() + _GONE_S
        while (members := self.members()) and time.monotonic() < until:
            _signal_all(members, signal.SIGKILL)
            time.sleep(_LOOK_S / 10)

    def reap(self, but: int) -> None:
        """Take note of the ends of orphans, which nobody else does; of `but`, its Popen does."""
        kept = self._before | {but}
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
                if ended.si_pid in kept:
                    break
                os.waitpid(ended.si_pid, os.WNOHANG)


class _Signals:
    """Takes the signals that are passed on, and those of ended children, and lets one wait for them.

    What is ignored stays ignored: nohup, and a script's background jobs.
    """

    def __enter__(self) -> _Signals:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._before: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}
        self._fd_before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in (*_PASSED_ON, signal.SIGTSTP, signal.SIGCHLD):
            if number == signal.SIGCHLD or signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, lambda number, frame: None)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        signal.set_wakeup_fd(self._fd_before)
        os.close(self._read)
        os.close(self._write)

    def wait(self, timeout_s: float) -> bytes:
        """Return the numbers of the signals that came, none if none came in that time."""
        ready, _, _ = select.select([self._read], [], [], min(max(timeout_s, 0), _LONGEST_S))
        return os.read(self._read, 4096) if ready else b""


@contextlib.contextmanager
def _orphans_come_here() -> Iterator[None]:
    """Become the parent of what descendants leave behind, where Linux can: none of it is lost from sight."""
    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        yield
        return
    before = ctypes.c_int(0)
    prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(_PR_SET_CHILD_SUBREAPER, before.value, 0, 0, 0)


def _parents() -> dict[int, int]:
    """Return the parent of every process; none where there is no /proc."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        fields = _stat(stat)
        if fields is not None:
            found[int(stat.parent.name)] = int(fields[1])
    return found


def _stat(path: Path) -> list[str] | None:
    """Return the fields of /proc/PID/stat from the state on: a name before them may hold anything."""
    try:
        return path.read_text(errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def _is_running(pid: int) -> bool:
    fields = _stat(Path(f"/proc/{pid}/stat"))
    return fields is not None and fields[0] not in "ZX"


def _folder_of(pid: int) -> Path | None:
    """Return the folder of a process's program; None where that cannot be seen, as once it has ended."""
    try:
        return Path(f"/proc/{pid}/exe").readlink().parent
    except OSError:
        return None


def _name_of(pid: int) -> str:
    try:
        name = Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        name = "?"
    return f"{printable(name)} ({pid})"


def _signal_all(pids: Sequence[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
