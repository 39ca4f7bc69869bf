"""The collector's native library, in processes of its own: NVTX ranges as rows in files.

What it takes of CUDA needs a GPU and is not tested here.  Ways of calling NVTX that Python lacks are in nvtx_calls.cc.
"""

# ruff: noqa: SIM300 - the expected value stands first
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from fdprof.ops.collector.build import collector_library
from fdprof.ops.collector.native import environment
from fdprof.ops.toolkit import header_folders

from fdprof.errors import EnvironmentMissing
from fdprof.recordings import read_process, recordings_in, row_sizes

LIMIT_S = 120


@pytest.fixture(scope="module")
def library():
    """The path of the library; skips where it cannot be built, with what is missing."""
    try:
        return collector_library()
    except EnvironmentMissing as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def nvtx_calls(library, tmp_path_factory):
    """The program of nvtx_calls.cc."""
    program = tmp_path_factory.mktemp("program") / "nvtx_calls"
    includes = [f"-I{folder}" for folder in header_folders()]
    source = str(Path(__file__).with_name("nvtx_calls.cc"))
    subprocess.run(["g++", "-std=c++17", *includes, source, "-o", str(program), "-ldl", "-lpthread"], check=True)
    return str(program)


@pytest.fixture
def variables(library, tmp_path):
    """Return the variables of a recorded process, and more of them."""

    def made(**more):
        return {**os.environ, **environment(tmp_path, cuda=False), **more}

    return made


@pytest.fixture
def run(variables, tmp_path):
    """Run a command, or Python code, recorded; return its exit code, what it printed, and its recordings.

    A recording is a list of processes.
    """

    def made(*command, code=None, **more):
        command = [sys.executable, "-W", "ignore", "-c", code] if code else command
        done = subprocess.run(
            command, env=variables(**more), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S
        )
        assert "" == done.stderr
        return done.returncode, done.stdout.split(), recorded(tmp_path)

    return made


def recorded(folder):
    return [[read_process(path) for path in paths] for paths in recordings_in(folder)]


def ranges(process):
    """Return name, domain (None: the default one), payload and thread of each range, as they ended in each thread."""
    return [
        (process.names[row["name"]], process.names.get(row["domain"]), int(row["payload"]), int(row["thread"]))
        for row in process.rows["ranges"]
    ]


def names(process):
    return [name for name, *_ in ranges(process)]


def spans(process):
    """Return start and end of each range by its name."""
    return {process.names[row["name"]]: (int(row["start_ns"]), int(row["end_ns"])) for row in process.rows["ranges"]}


def only(recordings):
    """Return the one process of the one recording."""
    assert [1] == [len(processes) for processes in recordings]
    return recordings[0][0]


def until(is_so, process=None):
    """Wait for what another process does, without a guess at how long that takes."""
    deadline = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen"
        assert process is None or process.poll() is None, "the process has ended"
        time.sleep(0.01)


def test_the_rows_are_those_that_the_reader_expects(library):
    """A row's size, by table, is the library's own sizeof."""
    import ctypes

    size_of = ctypes.CDLL(str(library)).fdprof_row_size
    size_of.restype = ctypes.c_uint32
    assert row_sizes() == tuple(size_of(table) for table in range(len(row_sizes())))
    assert (0, 0) == (size_of(len(row_sizes())), size_of(-1))


# What a range is


def test_ranges_of_python_have_names_domains_payloads_and_the_thread(run):
    """nvtx.annotate, domains of both kinds, and a step with its index; the inner one ends first."""
    code, _, recordings = run(
        code="import nvtx, os, threading\n"
        "with nvtx.annotate('outer'):\n"
        "    with nvtx.annotate('inner', domain='engine', payload=7): pass\n"
        "from fdprof import markers\n"
        "with markers.step(41):\n"
        "    with markers.transfer('tokens'): pass\n"
        "print(os.getpid(), threading.get_native_id())"
    )
    process = only(recordings)
    assert 0 == code
    assert [
        ("inner", "engine", 7),
        ("outer", None, -1),
        ("transfer:tokens", "fdprof", -1),
        ("step", "fdprof", 41),
    ] == [row[:3] for row in ranges(process)]
    assert {process.number} == {row[3] for row in ranges(process)}
    its = spans(process)
    assert its["outer"][0] <= its["inner"][0] <= its["inner"][1] <= its["outer"][1] <= its["step"][0]
    assert () == process.limits


def test_payloads_of_every_integer_type_are_kept_and_of_no_other(run, nvtx_calls):
    """9e18 fits 63 bits; of an int32 the upper half of the union is not read; -1 is none."""
    _, _, recordings = run(nvtx_calls, "payloads")
    assert {
        "uint64": 9 * 10**18,
        "int64": 5 * 10**9,
        "uint32": 4 * 10**9,
        "int32": 7,
        "float": -1,
        "double": -1,
        "none": -1,
    } == {name: payload for name, _, payload, _ in ranges(only(recordings))}


def test_names_come_as_text_wide_registered_or_not_at_all(run, nvtx_calls):
    """Wide characters beyond ASCII are '?'; a null pointer and a message of no type are an empty name."""
    _, _, recordings = run(nvtx_calls, "names")
    assert [
        ("ascii", None),
        ("wide ?", None),
        ("", None),
        ("", None),
        ("registered", "engine"),
        ("wide registered", "wide engine"),
    ] == [row[:2] for row in ranges(only(recordings))]


def test_a_name_may_hold_anything(run):
    """A line break in a name begins no line of the file of names; unicode and 100,000 characters stay."""
    _, _, recordings = run(
        code="import nvtx\n"
        "for name in ('a\\nb\\r\\nc', '7 8', ' ', 'Schritt größer → 0', 'x' * 100_000, '\\x1b[31m', 'a\\u2028b'):\n"
        "    with nvtx.annotate(name): pass"
    )
    expected = ["a b  c", "7 8", " ", "Schritt größer → 0", "x" * 100_000, "?[31m", "a?b"]
    assert expected == names(only(recordings))


def test_push_and_pop_pair_within_a_domain(run, nvtx_calls):
    """a( engine:b( a) engine:b) cross, as two libraries' ranges may; a pop too many ends nothing."""
    process = only(run(nvtx_calls, "crossing")[2])
    assert [("a", None), ("b", "engine")] == [row[:2] for row in ranges(process)]
    its = spans(process)
    assert its["a"][0] <= its["b"][0] <= its["a"][1] <= its["b"][1]


def test_a_started_range_belongs_to_the_thread_that_started_it(run, nvtx_calls):
    """As in nsys: it may end in another thread, which has no other range here."""
    _, (other,), recordings = run(nvtx_calls, "started")
    process = only(recordings)
    assert ["ends in another thread", "crosses it"] == names(process)
    assert [process.number] * 2 == [row[3] for row in ranges(process)]
    assert int(other) != process.number


def test_a_range_that_is_open_at_the_end_is_left_out(run, nvtx_calls):
    """One that was popped before stays; both kinds of open ones go."""
    assert ["whole"] == names(only(run(nvtx_calls, "left open")[2]))


# Threads


def test_no_range_of_many_threads_is_lost_or_mixed_up(run):
    """8 threads, 25,000 ranges each: 200,000 rows, each with the thread that its name and payload say."""
    _, output, recordings = run(
        code="import threading, nvtx\n"
        "all = threading.Barrier(8)\n"
        "def work(number):\n"
        "    domain = nvtx.get_domain('engine')\n"
        "    event = domain.get_event_attributes(message=f'of {threading.get_native_id()}', payload=number)\n"
        "    all.wait()\n"
        "    for _ in range(25_000):\n"
        "        domain.push_range(event); domain.pop_range()\n"
        "threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
        "print(*(t.native_id for t in threads))"
    )
    process = only(recordings)
    rows = process.rows["ranges"]
    assert 200_000 == len(rows)
    for number, thread in enumerate(int(word) for word in output):
        mine = rows[rows["thread"] == thread]
        assert (25_000, {number}) == (len(mine), set(mine["payload"].tolist()))
        assert {f"of {thread}"} == {process.names[name] for name in np.unique(mine["name"])}
        assert (mine["start_ns"][1:] >= mine["end_ns"][:-1]).all()


def test_threads_have_the_names_that_they_had_at_the_end(run, nvtx_calls):
    """The main thread's is the program's, cut by the system to 15 letters; the collector's own thread is there too."""
    process = only(run(nvtx_calls, "payloads")[2])
    assert "nvtx_calls" == process.threads[process.number]


# Processes


def test_a_forked_child_has_a_recording_and_a_thread_of_its_own(run):
    """The child's rows are its own only: neither what was before the fork, nor what was open at it."""
    code, output, recordings = run(
        code="import nvtx, os, time\n"
        "with nvtx.annotate('parent before'): pass\n"
        "with nvtx.annotate('open at the fork'):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        with nvtx.annotate('child'): pass\n"
        "        raise SystemExit(0)\n"
        "    os.waitpid(child, 0)\n"
        "print(os.getpid(), child)"
    )
    parent, child = (int(word) for word in output)
    by_number = {process.number: process for process in recordings[0]}
    assert (0, 1, {parent, child}) == (code, len(recordings), set(by_number))
    assert [("parent before", parent), ("open at the fork", parent)] == [row[::3] for row in ranges(by_number[parent])]
    assert [("child", child)] == [row[::3] for row in ranges(by_number[child])]


def test_a_child_that_a_thread_forks_is_recorded(run):
    """The thread is the child's main thread: its id is the child's, and not the one it had in the parent.

    The child leaves by os._exit, as those of multiprocessing do: what is flushed is there, and that it is cut is said.
    """
    _, output, recordings = run(
        code="import nvtx, os, threading, time\n"
        "def work():\n"
        "    with nvtx.annotate('parent'): pass\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        with nvtx.annotate('child'): pass\n"
        "        path = f\"{os.environ['FDPROF_COLLECT_FOLDER']}/{os.getpid()}-1/ranges\"\n"
        "        while not os.path.getsize(path): time.sleep(0.01)\n"
        "        os._exit(0)\n"
        "    os.waitpid(child, 0); print(child, threading.get_native_id())\n"
        "thread = threading.Thread(target=work); thread.start(); thread.join()",
        FDPROF_COLLECT_FLUSH_MS="20",
    )
    child, thread = (int(word) for word in output)
    processes = {process.number: process for process in recordings[0]}
    (parent,) = (process for number, process in processes.items() if number != child)
    assert [("parent", thread)] == [row[::3] for row in ranges(parent)]
    assert [("child", child)] == [row[::3] for row in ranges(processes[child])]
    assert [True] == ["ended before the collector could" in limit for limit in processes[child].limits]


def test_forks_while_other_threads_use_every_lock_hang_no_child(run, nvtx_calls):
    """40 forks beside 4 threads that push all the time; each child records its 301 ranges and leaves."""
    code, _, recordings = run(nvtx_calls, "forks", "40")
    assert (0, 1, 41) == (code, len(recordings), len(recordings[0]))
    counts = sorted(len(process.rows["ranges"]) for process in recordings[0])
    assert [301] * 40 == counts[:40]
    assert ["in the child"] * 40 == [
        names(process)[0] for process in recordings[0] if len(process.rows["ranges"]) == 301
    ]


def test_a_process_that_becomes_another_program_leaves_both_recordings(run):
    """exec keeps the process id: the second program writes beside the first's rows, and not over them."""
    code, _, recordings = run(
        code="import nvtx, os, sys, time\n"
        "with nvtx.annotate('before exec'): pass\n"
        "folder = os.environ['FDPROF_COLLECT_FOLDER']\n"
        "path = f'{folder}/{os.getpid()}-1/ranges'\n"
        "while not os.path.getsize(path): time.sleep(0.01)\n"
        "os.execv(sys.executable, [sys.executable, '-c', \"import nvtx\\nwith nvtx.annotate('after'): pass\"])",
        FDPROF_COLLECT_FLUSH_MS="20",
    )
    (processes,) = recordings
    assert (0, [["before exec"], ["after"]]) == (code, [names(process) for process in processes])
    assert 1 == len({process.number for process in processes})


def test_a_command_that_is_started_by_a_recorded_one_is_recorded(run):
    """The variables are inherited; both are of one recording."""
    _, _, recordings = run(
        code="import nvtx, subprocess, sys\n"
        "with nvtx.annotate('parent'):\n"
        "    subprocess.run([sys.executable, '-c', \"import nvtx\\nwith nvtx.annotate('child'): pass\"])"
    )
    assert [["child"], ["parent"]] == sorted(names(process) for process in recordings[0])


# Ends


@pytest.mark.parametrize(
    "end", ["os._exit(3)", "os.kill(os.getpid(), signal.SIGTERM)", "os.kill(os.getpid(), signal.SIGKILL)", "os.abort()"]
)
def test_a_process_that_is_ended_leaves_what_was_flushed(run, end):
    """300 ranges: 256 are handed over at once, and all are in the file after a flush, which the process waits for."""
    code, _, recordings = run(
        code="import nvtx, os, resource, signal, time\n"
        "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
        "for i in range(300):\n"
        "    with nvtx.annotate('step', payload=i): pass\n"
        "path = f\"{os.environ['FDPROF_COLLECT_FOLDER']}/{os.getpid()}-1/ranges\"\n"
        "while os.path.getsize(path) < 300 * 40: time.sleep(0.01)\n"
        f"{end}",
        FDPROF_COLLECT_FLUSH_MS="50",
    )
    process = only(recordings)
    assert code != 0
    assert list(range(300)) == [payload for _, _, payload, _ in ranges(process)]
    assert any("ended before the collector could" in limit for limit in process.limits)


def test_the_flush_needs_no_asking(variables, tmp_path):
    """The default period: a process that does nothing more has its range in the file; then SIGKILL takes it."""
    code = "import nvtx, time\nwith nvtx.annotate('step'): pass\ntime.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code], env=variables()) as process:
        try:
            until(lambda: any(path.stat().st_size for path in tmp_path.glob("*/ranges")), process)
        finally:
            process.send_signal(signal.SIGKILL)
    assert ["step"] == names(only(recorded(tmp_path)))


def test_an_exception_ends_a_recording_as_any_other_end(run, tmp_path, variables):
    """Exit code 1: the process is over in order, and so are its rows."""
    code = "import nvtx\nwith nvtx.annotate('step'): 1 / 0"
    done = subprocess.run([sys.executable, "-c", code], env=variables(), capture_output=True, timeout=LIMIT_S)
    process = only(recorded(tmp_path))
    assert (1, ["step"], ()) == (done.returncode, names(process), process.limits)


# A range as the recording


def test_a_watched_range_is_the_recording_each_time_up_to_the_limit(run):
    """5 times, 3 wanted: each holds the range and what is in it; what is outside or in a later one is in none."""
    _, _, recordings = run(
        code="import nvtx\n"
        "for i in range(5):\n"
        "    with nvtx.annotate('outside'): pass\n"
        "    with nvtx.annotate('measured', domain='engine', payload=i):\n"
        "        with nvtx.annotate('inside', payload=i): pass",
        FDPROF_COLLECT_RANGE="measured@engine",
        FDPROF_COLLECT_REPEAT="3",
    )
    assert [[("inside", i), ("measured", i)] for i in range(3)] == [
        [row[::2] for row in ranges(only([processes]))] for processes in recordings
    ]


@pytest.mark.parametrize(
    ("wanted", "count"), [("measured@engine", 1), ("measured@other", 0), ("measured", 1), ("measured@*", 2)]
)
def test_a_watched_range_is_of_its_domain_or_of_any(run, wanted, count):
    """One of the domain engine and one of the default domain, which a name alone means; * means both."""
    _, _, recordings = run(
        code="import nvtx\nwith nvtx.annotate('measured'): pass\nwith nvtx.annotate('measured', domain='engine'): pass",
        FDPROF_COLLECT_RANGE=wanted,
        FDPROF_COLLECT_REPEAT="9",
    )
    assert count == len(recordings)


def test_a_range_inside_the_watched_one_with_its_name_ends_nothing(run):
    """The recording ends with the range that began it, so that 'after' is in it, and there is no second one."""
    _, _, recordings = run(
        code="import nvtx\n"
        "with nvtx.annotate('measured'):\n"
        "    with nvtx.annotate('measured'): pass\n"
        "    with nvtx.annotate('after'): pass",
        FDPROF_COLLECT_RANGE="measured",
        FDPROF_COLLECT_REPEAT="9",
    )
    assert ["measured", "after", "measured"] == names(only(recordings))


def test_a_range_of_another_thread_with_the_watched_name_ends_nothing(run):
    """It begins and ends inside the first thread's, whose end is the recording's."""
    _, _, recordings = run(
        code="import nvtx, threading\n"
        "def other():\n"
        "    with nvtx.annotate('measured'): pass\n"
        "with nvtx.annotate('measured'):\n"
        "    thread = threading.Thread(target=other); thread.start(); thread.join()\n"
        "    with nvtx.annotate('after'): pass",
        FDPROF_COLLECT_RANGE="measured",
    )
    assert ["after", "measured", "measured"] == sorted(names(only(recordings)))


def test_a_range_that_was_open_before_the_recording_is_left_out(run):
    """'around' begins outside the watched range and ends inside it (both of them in start/end form)."""
    _, _, recordings = run(
        code="import nvtx\n"
        "around = nvtx.start_range('around')\n"
        "measured = nvtx.start_range('measured')\n"
        "nvtx.end_range(around)\n"
        "with nvtx.annotate('inside'): pass\n"
        "nvtx.end_range(measured)",
        FDPROF_COLLECT_RANGE="measured",
    )
    assert ["inside", "measured"] == names(only(recordings))


def test_a_watched_range_that_is_open_when_the_process_ends_is_recorded_to_there(run, nvtx_calls):
    """'never popped' began the recording, and nothing whole is in it."""
    process = only(run(nvtx_calls, "left open", FDPROF_COLLECT_RANGE="never popped")[2])
    assert ([], ()) == (names(process), process.limits)


def test_a_watched_range_that_never_begins_leaves_nothing(run, tmp_path):
    """No recording, no file."""
    assert [] == run(code="import nvtx\nwith nvtx.annotate('a'): pass", FDPROF_COLLECT_RANGE="b")[2]
    assert [] == list(tmp_path.iterdir())


# Where it cannot be written


def test_a_folder_that_is_not_there_disturbs_no_process(run, tmp_path):
    """The command does what it does without the collector."""
    code, output, recordings = run(
        code="import nvtx\nwith nvtx.annotate('a'): print('done')", FDPROF_COLLECT_FOLDER=str(tmp_path / "none")
    )
    assert (0, ["done"], []) == (code, output, recordings)


def test_rows_that_could_not_be_written_are_counted_and_shift_no_other(run, nvtx_calls):
    """11,000 ranges, files of at most 100,001 bytes for the first 10,000: 40 bytes a row, so a part of one would fit.

    What is in the file and what is counted are all there were; the later rows are whole, for every row is 'busy'.
    """
    process = only(run(nvtx_calls, "full", FDPROF_COLLECT_FLUSH_MS="0")[2])
    kept = names(process)
    assert {"busy"} == set(kept)
    assert 1_000 <= len(kept) < 100_001 // 40 + 1_000 + 2_000
    assert (f"process {process.number}: {11_000 - len(kept):,} rows could not be written: the disk was full, say",) == (
        process.limits
    )


def test_a_full_disk_disturbs_no_process(library, variables, tmp_path):
    """No file may grow at all: not even begin.json is there, so that there is no recording; the command goes on."""
    code = (
        "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))\n"
        "import nvtx\nfor _ in range(1000):\n    with nvtx.annotate('a'): pass\nprint('done')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=variables(), capture_output=True, text=True, timeout=LIMIT_S
    )
    assert (0, "done\n", []) == (done.returncode, done.stdout, recorded(tmp_path))
