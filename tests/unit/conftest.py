"""Fixtures of the unit tests: files of the collector written by hand, and an NVTX tool."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fdprof.recordings import _ROWS as ROWS

LAUNCH, COPY, RECORD, WAIT, STREAM_SYNC, MEMSET, DRIVER_LAUNCH, GRAPH_LAUNCH = (
    "cudaLaunchKernel_v7000",
    "cudaMemcpyAsync_v3020",
    "cudaEventRecord_v3020",
    "cudaEventSynchronize_v3020",
    "cudaStreamSynchronize_v3020",
    "cudaMemsetAsync_v3020",
    "cuLaunchKernel",
    "cudaGraphLaunch_v10000",
)
KINDS = ("kernel", "copy", "memset", "graph")
TIMES = ("start_ns", "end_ns")
END = {"end_ns": 10**9, "dropped": 0, "untimed": 0, "not_written": 0, "cupti": "CUPTI 130000, /lib/libcupti.so"} | {
    "devices": ["NVIDIA H200"],
    "error": "",
}


def write_process(
    root: Path,
    process: int = 100,
    number: int | str = 1,
    unit: int = 1,
    end: Mapping[str, Any] | None = END,
    threads: Mapping[int, str] | None = None,
    **tables: Iterable[Mapping[str, Any]],
) -> Path:
    """Write the folder of one process and return it; times are in `unit` ns, `end` is None of one that was killed.

    Rows are mappings of the columns of recordings.py with 0 for what is left out, but that `name`, `domain` and an
    api row's `call` are texts, and a work row's `kind` is one of KINDS.
    """
    folder = root / f"{process}-{number}"
    folder.mkdir(parents=True)
    names: dict[str, int] = {}
    callbacks: dict[str, int] = {}
    for table, fields in ROWS.items():
        written = []
        for given in tables.pop(table, ()):
            row = {name: value * unit if name in TIMES else value for name, value in given.items()}
            for text in ("name", "domain"):
                if isinstance(row.get(text), str):
                    row[text] = names.setdefault(row[text], len(names) + 1)
            if table == "api":
                call = row.pop("call")
                row["domain"] = 0 if call.startswith("cuda") else 1
                row["callback"] = callbacks.setdefault(call, len(callbacks) + 1)
                row.setdefault("thread", process)
            if table == "ranges":
                row = {"payload": -1, "thread": process} | row
            if table == "work":
                row["kind"] = KINDS.index(row["kind"])
            written.append(tuple(row.pop(name, 0) for name, _ in fields))
            assert not row, f"no such column: {sorted(row)}"
        (folder / table).write_bytes(np.array(written, dtype=list(fields)).tobytes())
    assert not tables, f"no such table: {sorted(tables)}"
    (folder / "names").write_text("".join(f"{number} {name}\n" for name, number in names.items()))
    lines = (f"{0 if call.startswith('cuda') else 1} {number} {call}\n" for call, number in callbacks.items())
    (folder / "callbacks").write_text("".join(lines))
    (folder / "begin.json").write_text(json.dumps({"process": process, "start_ns": 0, "start_utc_ns": 0}))
    if end is not None:
        listed = {process: "python"} if threads is None else threads
        (folder / "threads").write_text("".join(f"{thread} {name}\n" for thread, name in listed.items()))
        (folder / "end.json").write_text(json.dumps(dict(end)))
    return folder


def loop(steps: int = 3, *, driver: bool = True, event_sync: bool = True, process: int = 100) -> dict[str, list[Any]]:
    """Return the rows of a decode loop, times in us: 100 a step, which test_recorded_capture.py works out.

    A launch at 5-9 (with `driver`, the driver's call within at 6-8, whose id the kernel then has), its kernel at 10-50;
    a copy of 256 bytes to pinned memory, issued at 12-15, at 51-55; an event recorded at 16-17 and waited for at 20-65.
    There are two events, used in turn.
    """
    tables: dict[str, list[Any]] = {name: [] for name in ("api", "work", "ranges", "syncs", "events")}

    def at(start: int, end: int, step: int) -> dict[str, int]:
        return {"start_ns": 1_000 + 100 * step + start, "end_ns": 1_000 + 100 * step + end}

    for step in range(steps):
        first = 10 * step + 1
        # CUPTI hands calls over as they return: the inner one comes first.
        if driver:
            tables["api"].append({"call": DRIVER_LAUNCH, "correlation": first + 5} | at(6, 8, step))
        tables["api"] += [
            {"call": LAUNCH, "correlation": first} | at(5, 9, step),
            {"call": COPY, "correlation": first + 1} | at(12, 15, step),
            {"call": RECORD, "correlation": first + 2} | at(16, 17, step),
            {"call": WAIT, "correlation": first + 3} | at(20, 65, step),
        ]
        on = {"device": 0, "context": 1, "stream": 7}
        kernel = {"kind": "kernel", "name": "void at::decode<4, float>(int, float*)"}
        copy = {"kind": "copy", "copy": 2, "from": 3, "to": 2, "bytes": 256}
        tables["work"] += [
            {**kernel, **on, "correlation": first + 5 if driver else first} | at(10, 50, step),
            {**copy, **on, "correlation": first + 1} | at(51, 55, step),
        ]
        tables["ranges"].append(
            {"name": "step", "domain": "fdprof", "payload": step, "thread": process} | at(0, 100, step)
        )
        event, pair = {"context": 1, "event": step % 2}, step + 1 if event_sync else 0
        tables["events"].append({"correlation": first + 2, "stream": 7, "event_sync": pair} | event)
        tables["syncs"].append(
            {"correlation": first + 3, "stream": 0xFFFFFFFF, "event_sync": pair, "type": 1} | event | at(20, 65, step)
        )
    return tables


@pytest.fixture(scope="session")
def a_process() -> Callable[..., Path]:
    """Write one process's folder; see `write_process`."""
    return write_process


@pytest.fixture(scope="session")
def a_recorded_loop() -> Callable[..., dict[str, list[Any]]]:
    """The rows of a loop; see `loop`."""
    return loop


@pytest.fixture(scope="session")
def make_nvtx_tool(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Build an NVTX tool: a library that writes each push and pop into the file $TAPE."""
    homes = [Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")), *sorted(Path("/usr/local").glob("cuda-*"))]
    include = next((home / "include" for home in homes if (home / "include/nvtx3").is_dir()), None)
    compiler = shutil.which("cc") or shutil.which("gcc")
    if include is None or compiler is None:
        pytest.skip("no CUDA toolkit with NVTX's headers" if include is None else "no C compiler")
    folder = tmp_path_factory.mktemp("tool")
    source = Path(__file__).with_name("nvtx_tool.c")

    def make(*flags: str) -> Path:
        library = folder / f"tool{len(flags)}.so"
        arguments = ["-shared", "-fPIC", f"-I{include}", *flags, "-o", str(library), str(source), "-ldl"]
        subprocess.run([compiler, *arguments], check=True)
        return library

    return make
