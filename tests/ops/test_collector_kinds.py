"""Which records the collector asks CUPTI for, held against a CUPTI that gives one of each (cupti_stub.cc).

In processes of their own, since a process has one CUPTI.  What real records cost and hold needs a GPU.
"""

# ruff: noqa: SIM300 - the expected value stands first
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fdprof.ops.collector.build import collector_library
from fdprof.ops.collector.native import Kinds
from fdprof.ops.toolkit import header_folders

from fdprof.errors import EnvironmentMissing
from fdprof.recordings import read_process

LIMIT_S = 120

CALLS = {"cudaMemcpyAsync_v3020", "cudaEventSynchronize_v3020"}
LAUNCHES = {"cudaLaunchKernel_v7000", "cudaGraphLaunch_v10000"}
DRIVER_CALLS = {"cuLaunchKernel"}
EVERYTHING = {"api": 5, "work": 5, "syncs": 1, "events": 1, "overhead": 1, "contexts": 1, "streams": 1}
"""Rows by table: the work is a kernel, two copies, a memset and a graph."""


@pytest.fixture(scope="module")
def stub(tmp_path_factory):
    """The stub's library; skips where the collector cannot be built, with what is missing."""
    try:
        collector_library()
    except EnvironmentMissing as error:
        pytest.skip(str(error))
    library = tmp_path_factory.mktemp("stub") / "libcupti_stub.so"
    includes = [f"-I{folder}" for folder in header_folders()]
    source = str(Path(__file__).with_name("cupti_stub.cc"))
    subprocess.run(["g++", "-std=c++17", "-shared", "-fPIC", *includes, source, "-o", str(library)], check=True)
    return library


@pytest.fixture
def recorded(stub, tmp_path):
    """Record in one process with each of these kinds in turn; return the rows by table and the calls by name."""

    def made(*kinds):
        code = "".join(
            f"library.start(Path({str(tmp_path / str(number))!r}), graph_nodes=False, cuda=True"
            f"{'' if wanted is None else f', kinds=Kinds({int(wanted)})'})\nlibrary.stop()\n"
            for number, wanted in enumerate(kinds)
        )
        run(code, stub)
        return [rows_in(tmp_path / str(number)) for number in range(len(kinds))]

    return made


def run(code, stub):
    variables = {**os.environ, "FDPROF_CUPTI": str(stub)}
    start = "from pathlib import Path\nfrom fdprof.ops.collector.native import Kinds, Library\nlibrary = Library()\n"
    command = [sys.executable, "-W", "ignore", "-c", start + code]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=LIMIT_S)
    assert (0, "") == (done.returncode, done.stderr)
    return done.stdout


def rows_in(folder):
    process = read_process(folder)
    rows = {table: len(rows) for table, rows in process.rows.items() if len(rows)}
    calls = process.rows["api"]
    names = [process.callbacks[int(d), int(c)] for d, c in zip(calls["domain"], calls["callback"], strict=True)]
    assert len(names) == len(set(names))
    return rows, set(names)


def test_all_kinds_are_what_a_recording_has_that_says_nothing_of_them(recorded):
    """Both forms give every table; idle talk of the runtime and what the driver is not asked for are left out."""
    assert [(EVERYTHING, LAUNCHES | CALLS | DRIVER_CALLS)] * 2 == recorded(None, Kinds.ALL)


@pytest.mark.parametrize(
    ("kinds", "rows", "calls"),
    [
        (Kinds(0), {}, set()),
        (Kinds.LAUNCHES, {"api": 2}, LAUNCHES),
        (Kinds.OTHER_CALLS, {"api": 2}, CALLS),
        (Kinds.LAUNCHES | Kinds.OTHER_CALLS, {"api": 4}, LAUNCHES | CALLS),
        (Kinds.DRIVER_CALLS, {"api": 1}, DRIVER_CALLS),
        (Kinds.WAITS, {"syncs": 1}, set()),
        (Kinds.EVENTS, {"events": 1}, set()),
        (Kinds.KERNELS, {"work": 1}, set()),
        (Kinds.COPIES, {"work": 3}, set()),
        (Kinds.GRAPHS, {"work": 1}, set()),
        (Kinds.PLACES, {"contexts": 1, "streams": 1}, set()),
        (Kinds.CUPTI_ITSELF, {"overhead": 1}, set()),
    ],
)
def test_each_kind_brings_its_own_rows_and_no_other(recorded, kinds, rows, calls):
    """Where CUPTI is older than CUDA 12.6 it knows no single functions, so LAUNCHES brings every call."""
    assert [(rows, calls)] == recorded(kinds)


def test_what_one_recording_leaves_out_the_next_has_again(recorded):
    """Launches alone, then everything, in one process."""
    first, second = recorded(Kinds.LAUNCHES, Kinds.ALL)
    assert (LAUNCHES, LAUNCHES | CALLS | DRIVER_CALLS) == (first[1], second[1])


def test_a_kind_that_the_library_does_not_know_is_refused(stub, tmp_path):
    """So Python's list of them cannot grow past the library's; nothing is left behind."""
    code = (
        "from fdprof.errors import EnvironmentMissing\n"
        f"try: library.start(Path({str(tmp_path / 'a')!r}), graph_nodes=False, cuda=False, kinds=2 * Kinds.ALL)\n"
        "except EnvironmentMissing as error: print(error)"
    )
    assert "the collector cannot start: no such kinds of records: 1024\n" == run(code, stub)
    assert [] == list(tmp_path.iterdir())
