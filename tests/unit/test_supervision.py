"""How a command is run to its end: its exit code, its limit, signals, and what it leaves behind."""

# ruff: noqa: SIM300
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fdprof.errors import UsageError
from fdprof.supervision import Ended, Outcome, require_command, run

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="processes are found in /proc, as on Linux"
)

FOREVER = "while :; do read -r -t 1000 <> fifo; done"
"""Of bash: waits without a process of its own, and takes signals at once."""

DRIVER = """
import json, signal, sys
from fdprof.supervision import run
options = json.loads(sys.argv[1])
# Whatever the test's own process ignores, as under nohup.
signal.signal(signal.SIGHUP, signal.SIG_IGN if options.pop("is_nohup") else signal.SIG_DFL)
outcome = run(sys.argv[2:], tell=lambda text: print(text, file=sys.stderr, flush=True), **options)
print(outcome.exit_code, outcome.ended.value, flush=True)
sys.exit(outcome.exit_code)
"""


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    """Commands write into it; the fifo is what FOREVER waits on."""
    monkeypatch.chdir(tmp_path)
    os.mkfifo("fifo")


@pytest.fixture
def drive():
    """Start `run` in a process of its own, in its own process group, so that signals can be sent to it."""
    started = []

    def start(*command, **options):
        options = {"limit_s": 600, "grace_s": 600, "is_nohup": False} | options
        driver = subprocess.Popen(
            [sys.executable, "-c", DRIVER, json.dumps(options), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(driver)
        return driver

    yield start
    for driver in started:
        until_killed(driver, signal.SIGTERM)
        driver.communicate()


def until_killed(driver, number):
    """Send a signal again and again: the second that is no repetition of the first kills the command."""
    while driver.poll() is None:
        driver.send_signal(number)
        try:
            driver.wait(0.1)
        except subprocess.TimeoutExpired:
            continue


def bash(script):
    return ("bash", "-c", script)


def python(code):
    return (sys.executable, "-c", code)


def written(name):
    return Path(name).read_text().split()


def state_of(pid):
    """Return the state that /proc shows of a process, None where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def is_gone(pid):
    return state_of(pid) in (None, "Z", "X")


@pytest.mark.parametrize("code", [0, 3, 255])
def test_the_exit_code_is_the_commands_own(code):
    """Whatever it is, the command ended by itself."""
    assert Outcome(code, Ended.EXIT) == run(bash(f"exit {code}"), limit_s=60)


def test_a_signal_that_ended_the_command_is_128_and_its_number():
    """As in a shell: SIGSEGV is 11."""
    assert Outcome(139, Ended.SIGNAL) == run(bash("kill -SEGV $$"), limit_s=60)


def test_at_the_limit_the_command_can_flush_on_sigint():
    """Its handler runs to the end; the exit code is timeout(1)'s, whatever the command's own was."""
    told = []
    outcome = run(bash(f"trap 'echo flushed > file; exit 0' INT; {FOREVER}"), limit_s=1, tell=told.append)
    assert Outcome(124, Ended.LIMIT) == outcome
    assert ["flushed"] == written("file")
    assert ["the limit is reached: ending the command"] == told


def test_python_runs_its_clean_up_at_the_limit():
    """SIGINT is KeyboardInterrupt there; on SIGTERM it would end without exit handlers, which write traces."""
    code = """
import atexit, signal
from pathlib import Path
atexit.register(lambda: Path("file").write_text("written"))
signal.pause()
"""
    assert 124 == run(python(code), limit_s=1.5).exit_code
    assert ["written"] == written("file")


def test_what_ignores_sigint_gets_sigterm():
    """As a shell's background jobs do."""
    outcome = run(bash(f"trap '' INT; trap 'echo TERM > file; exit 0' TERM; {FOREVER}"), limit_s=1, grace_s=0.1)
    assert Ended.LIMIT == outcome.ended
    assert ["TERM"] == written("file")


def test_what_ignores_every_signal_is_killed():
    """The limit holds."""
    outcome = run(bash(f"trap '' INT TERM; echo $$ > pid; {FOREVER}"), limit_s=1, grace_s=0.1)
    assert Outcome(124, Ended.LIMIT) == outcome
    assert is_gone(written("pid")[0])


def test_a_command_that_has_stopped_itself_is_ended_all_the_same():
    """A stopped process acts on no signal before it goes on."""
    assert Outcome(124, Ended.LIMIT) == run(bash("kill -STOP $$"), limit_s=0.5)


@pytest.mark.parametrize(
    "started",
    ["sleep 1000 & echo $! > pid", "(setsid sleep 1000 & echo $! > pid)", "nohup sleep 1000 > out & echo $! > pid"],
)
def test_what_a_command_leaves_running_is_ended_and_named(started):
    """Also what has a session of its own, or ignores SIGHUP, or holds the command's output open."""
    outcome = run(bash(f"{started}; exit 3"), limit_s=60)
    (pid,) = written("pid")
    assert is_gone(pid)
    assert Outcome(3, Ended.EXIT, (f"sleep ({pid})",)) == outcome


def test_a_left_process_that_ignores_sigterm_is_killed():
    """There is an end to it."""
    left = "(trap '' TERM; echo $BASHPID > pid; while :; do read -r -t 1000 <> fifo; done) &"
    outcome = run(bash(f"{left} until [ -s pid ]; do :; done"), limit_s=60, grace_s=0.1)
    assert is_gone(written("pid")[0])
    assert 1 == len(outcome.left)


def test_a_worker_that_outlives_its_killed_parent_is_ended():
    """An engine that dies leaves its workers to init, here to us."""
    script = "bash -c 'sleep 1000 & echo $! > pid; kill -KILL $$'; true"
    assert 0 == run(bash(script), limit_s=60).exit_code
    assert is_gone(written("pid")[0])


def test_a_child_that_was_there_before_is_left_alone():
    """Only what was started here ends."""
    other = subprocess.Popen(["sleep", "1000"])
    try:
        assert Outcome(0, Ended.EXIT) == run(bash("true"), limit_s=60)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_the_end_of_a_child_that_was_there_before_is_not_taken_from_its_owner():
    """Its exit code still belongs to who started it."""
    other = subprocess.Popen(bash("read -r < fifo; exit 5"))
    assert 0 == run(bash("echo > fifo"), limit_s=60).exit_code
    assert 5 == other.wait()


def test_signal_handlers_are_as_they_were():
    """A handler left behind would swallow Ctrl-C."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP, signal.SIGCHLD)
    before = [signal.getsignal(number) for number in numbers]
    run(bash("true"), limit_s=60)
    assert before == [signal.getsignal(number) for number in numbers]
    assert -1 == signal.set_wakeup_fd(-1)


def test_more_variables_are_added_to_the_environment():
    """The others stay."""
    run(bash('echo "$MORE" "$HOME" > file'), limit_s=60, environment=(("MORE", "1"),))
    assert ["1", os.environ["HOME"]] == written("file")


def test_standard_input_is_passed_through(drive):
    """And standard output is the command's too."""
    output, _ = drive("cat").communicate("typed\n")
    assert ["typed", "0 exit"] == output.splitlines()


def test_quiet_moves_the_commands_output_to_standard_error(drive):
    """Standard output is then free for a document."""
    output, errors = drive(*bash("echo said"), quiet=True).communicate()
    assert (["0 exit"], ["said"]) == (output.splitlines(), errors.splitlines())


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_to_the_whole_group_reaches_the_command_once(drive, number, code):
    """As Ctrl-C in a terminal does; a second one would cut a profiler's own ending short."""
    name = signal.Signals(number).name.removeprefix("SIG")
    script = f"exec 3<&0; trap 'echo {name}; read -r -u 3; exit 0' {name}; echo ready; {FOREVER}"
    driver = drive(*bash(script))
    assert "ready\n" == driver.stdout.readline()
    os.killpg(driver.pid, number)
    assert f"{name}\n" == driver.stdout.readline()
    output, errors = driver.communicate("\n")
    assert [f"{code} interrupted"] == output.splitlines()
    assert f"SIG{name}: ending the command; a second signal kills it\n" == errors


def test_a_second_ctrl_c_kills(drive):
    """Not the first one, after which the command may take its time; one right behind it is the same Ctrl-C."""
    driver = drive(*bash(f"trap 'echo INT' INT; trap '' TERM; echo $$; {FOREVER}"))
    pid = driver.stdout.readline().strip()
    driver.send_signal(signal.SIGINT)
    assert "INT\n" == driver.stdout.readline()
    assert not is_gone(pid)
    until_killed(driver, signal.SIGINT)
    assert is_gone(pid)
    assert "130 interrupted" == driver.stdout.read().splitlines()[-1]


def test_what_is_ignored_stays_ignored(drive):
    """nohup fdprof capture -- COMMAND survives the terminal."""
    driver = drive(*bash("echo ready; read -r word; echo $word"), is_nohup=True)
    assert "ready\n" == driver.stdout.readline()
    driver.send_signal(signal.SIGHUP)
    output, _ = driver.communicate("on\n")
    assert ["on", "0 exit"] == output.splitlines()


def test_ctrl_z_stops_the_command_too_and_it_goes_on(drive):
    """It has a session of its own, to which the terminal sends nothing."""
    driver = drive(*bash("echo $$; read -r word; echo $word"))
    pid = driver.stdout.readline().strip()
    driver.send_signal(signal.SIGTSTP)
    assert os.WIFSTOPPED(os.waitpid(driver.pid, os.WUNTRACED)[1])
    for _ in range(100_000):  # it was told before, and may take a moment
        if state_of(pid) == "T":
            break
        os.sched_yield()
    assert "T" == state_of(pid)
    driver.send_signal(signal.SIGCONT)
    output, _ = driver.communicate("on\n")
    assert ["on", "0 exit"] == output.splitlines()


@pytest.fixture
def profiler(tmp_path):
    """A stand-in for one: a copy of bash in a folder of its own, so that its program is told from the command's."""
    folder = tmp_path / "profiler"
    folder.mkdir()
    return str(shutil.copy(shutil.which("bash"), folder / "profiler"))


TARGET = f"trap 'echo INT > target; exit 0' INT; echo $$ > pid; {FOREVER}"


def test_a_profiler_is_not_signalled_itself_and_writes_its_file(profiler):
    """Only what it started gets SIGINT, although the target has a session of its own, as under nsys."""
    script = 'trap "echo profiler > signalled" INT; setsid bash -c "$0"; echo written > file; exit 5'
    outcome = run((profiler, "-c", script, TARGET), limit_s=1, ends_itself=True)
    assert Outcome(124, Ended.LIMIT) == outcome
    assert (["INT"], ["written"]) == (written("target"), written("file"))
    assert not Path("signalled").exists()


def test_helpers_of_the_profiler_are_not_signalled_either(profiler):
    """nsys starts its target through a launcher of its own."""
    inner = 'trap "echo launcher > signalled" INT TERM; bash -c "$0"; echo launched > launched'
    outcome = run((profiler, "-c", f"{profiler} -c '{inner}' \"$0\"; exit 5", TARGET), limit_s=1, ends_itself=True)
    assert Outcome(124, Ended.LIMIT) == outcome
    assert (["INT"], ["launched"]) == (written("target"), written("launched"))
    assert not Path("signalled").exists()


def test_a_command_that_ended_in_time_did_not_run_past_the_limit(profiler):
    """The profiler may write on, and its exit code counts."""
    outcome = run((profiler, "-c", "read -r -t 1.5 <> fifo; exit 7"), limit_s=0.2, ends_itself=True)
    assert Outcome(7, Ended.EXIT) == outcome


def test_a_profiler_that_does_not_finish_is_killed(profiler):
    """Its file is lost then, but not the terminal."""
    outcome = run((profiler, "-c", f"trap '' INT TERM; {FOREVER}"), limit_s=0.2, finish_s=0.2, ends_itself=True)
    assert 124 == outcome.exit_code


def test_ctrl_c_lets_a_profiler_write_its_file(drive, profiler):
    """The command ends by it, the profiler by itself."""
    script = 'setsid bash -c "$0"; echo written > file'
    target = f"trap 'exit 0' INT; echo ready; {FOREVER}"
    driver = drive(profiler, "-c", script, target, ends_itself=True)
    assert "ready\n" == driver.stdout.readline()
    os.killpg(driver.pid, signal.SIGINT)
    output, _ = driver.communicate()
    assert ["130 interrupted"] == output.splitlines()
    assert ["written"] == written("file")


@pytest.mark.parametrize("name", ["no-such-command", "", "a\0b", "./no-such-file"])
def test_a_command_that_is_not_there_is_a_usage_error(name):
    """Before anything is started."""
    with pytest.raises(UsageError, match="no command is named"):
        run([name], limit_s=60)


def test_a_file_that_is_no_command_gets_a_hint():
    """What to type instead."""
    Path("script.py").write_text("pass\n")
    with pytest.raises(UsageError, match=r"no command is named 'script\.py'") as caught:
        require_command("script.py")
    assert "there is a file of that name: ./script.py, or python script.py" == caught.value.hint
    with pytest.raises(UsageError, match=r"\./script\.py is not executable") as caught:
        require_command("./script.py")
    assert "chmod +x ./script.py, or name its interpreter: python ./script.py" == caught.value.hint


def test_a_folder_is_no_command():
    """Though it has the permission to be searched."""
    Path("folder").mkdir()
    with pytest.raises(UsageError, match="folder, expected a command"):
        require_command("./folder")


def test_a_script_whose_interpreter_is_missing_says_so():
    """The kernel says only that there is no such file, which is not the script."""
    script = Path("script")
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    with pytest.raises(UsageError, match=r"cannot run \./script: its interpreter is not there"):
        run(["./script"], limit_s=60)


def test_a_file_that_is_no_program_says_so():
    """Executable by its mode, and yet nothing that can be run."""
    script = Path("data")
    script.write_bytes(b"\x00\x01\x02")
    script.chmod(0o755)
    with pytest.raises(UsageError, match=r"cannot run \./data: Exec format error"):
        run(["./data"], limit_s=60)


def test_the_path_of_the_added_environment_counts():
    """The command is looked for where it will be."""
    Path("bin").mkdir()
    tool = Path("bin", "only-here")
    tool.write_text("#!/bin/sh\nexit 4\n")
    tool.chmod(0o755)
    path = f"{Path.cwd() / 'bin'}:{os.environ['PATH']}"
    assert str(Path.cwd() / tool) == require_command("only-here", (("PATH", path),))
    assert 4 == run(["only-here"], limit_s=60, environment=(("PATH", path),)).exit_code
