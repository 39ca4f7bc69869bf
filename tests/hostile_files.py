"""Small good captures of every format to be damaged, and what must hold of whatever fdprof still accepts."""

import gzip
import json
import math
import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from fdprof.reports.terminal import TerminalReport
from hypothesis import strategies as st

from fdprof import plugins, store
from fdprof.analysis.capture_result import CaptureResult, analyze
from fdprof.analysis.steps import Choice
from fdprof.backends.sim import SimBackend
from fdprof.capture_store import save_capture
from fdprof.errors import EnvironmentMissing, InputError, UsageError
from fdprof.imports import import_capture
from fdprof.params import Extent
from fdprof.run_capture import capture_of
from fdprof.session import Session

REFUSALS = (InputError, UsageError, EnvironmentMissing)
"""What may come out of any file: exit codes 4, 2 and 6."""

PID, TID = 71, 72
GLOBAL_PID = PID << 24
GLOBAL_TID = GLOBAL_PID | TID
STEP_NS = 100_000

Rows = list[dict[str, Any]]


def _quiet(line: str) -> None:
    """The progress of a test."""


# The whole way of a file


def examined(path: Path, choice: Choice | None = None, **part: Any) -> dict[str, Any]:
    """Return the JSON report of a capture, after checking what must hold of every result and both reports."""
    result = analyze(import_capture(path, _quiet), str(path), choice or Choice(), **part)
    check(result)
    text = TerminalReport(100, color=True).render(result)
    assert_printable(re.sub(r"\x1b\[[0-9;]*m", "", text))  # colours are ours
    document: dict[str, Any] = strict_json(plugins.load("reports", "json").render(result))
    return document


def outcome(path: Path, choice: Choice | None = None, **part: Any) -> dict[str, Any] | None:
    """Return the report of a capture without its path, None where it is refused as it has to be."""
    try:
        document = examined(path, choice, **part)
    except REFUSALS as error:
        assert error.hint, f"{error} says nothing of what to do"
        assert len(str(error)) < 2_000, "a sentence, not a dump"
        assert error.exit_code in (2, 4, 6)
        return None
    document.pop("file")
    return document


def check(result: CaptureResult) -> None:
    """Assert that a ledger adds up and that nothing in it is below zero."""
    ledger = result.facts.ledger
    assert len(ledger) >= 1
    assert result.residual_ns in (0, None)
    columns = [ledger.window_ns, ledger.host_blocked_ns]
    if ledger.device_busy_ns is not None:
        assert (ledger.device_busy_ns + ledger.device_idle_ns == ledger.window_ns).all()
        columns += [ledger.device_busy_ns, ledger.device_idle_ns, ledger.compute_ns]
        columns += [ledger.copy_alone_ns] if result.facts.capture.times_copies else []
        columns += [ledger.harmful_wait_ns, ledger.harmless_wait_ns, *ledger.causes.values()]
    for column in columns:
        assert (column >= 0).all()
        assert (column <= ledger.window_ns).all()
    stalls = result.facts.stalls
    assert stalls.other_threads_ns >= 0
    for site in stalls.sites:
        for value in (site.blocked_ns, site.own_copy_ns, site.other_work_ns, site.idle_ns, site.harmful_ns):
            assert value is None or value >= 0
    for transfer in result.facts.transfers:
        for value in (transfer.issue_ns, transfer.copy_ns, transfer.wait_ns, transfer.bytes_per_step):
            assert value is None or value >= 0


def strict_json(text: str) -> Any:
    """Return the document; NaN and infinities are no JSON."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} in the JSON report")

    document = json.loads(text, parse_constant=refuse)
    _assert_finite(document)
    return document


def _assert_finite(value: Any) -> None:
    if isinstance(value, dict):
        for entry in value.values():
            _assert_finite(entry)
    elif isinstance(value, list):
        for entry in value:
            _assert_finite(entry)
    elif isinstance(value, float):
        assert math.isfinite(value)


def assert_printable(text: str) -> None:
    """Assert that nothing in the text can drive a terminal: no control character but the ends of lines."""
    wrong = sorted({character for character in text if not character.isprintable() and character != "\n"})
    assert not wrong, f"raw in the output: {wrong}"


# nsys


def nsys_tables(steps: int = 12, kernel: str = "decode kernel", marker: str = "decode_step") -> dict[str, Rows]:
    """Return the tables of an export of a loop: a launch, a copy to the host and a wait for its stream, each step."""
    names = ["cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020", "cudaStreamSynchronize_v3020", kernel, marker]
    calls, kernels, copies, syncs, ranges = [], [], [], [], []
    for step in range(steps):
        at = 1_000_000 + step * STEP_NS
        for number, (offset, length) in enumerate(((5_000, 4_000), (12_000, 3_000), (20_000, 45_000))):
            calls.append(
                {
                    "start": at + offset,
                    "end": at + offset + length,
                    "globalTid": GLOBAL_TID,
                    "correlationId": 3 * step + number + 1,
                    "nameId": number + 1,
                    "eventClass": 0,
                }
            )
        work = {"deviceId": 0, "streamId": 7, "globalPid": GLOBAL_PID}
        kernels.append({"start": at + 10_000, "end": at + 50_000, "correlationId": 3 * step + 1, "shortName": 4} | work)
        copies.append(
            {"start": at + 51_000, "end": at + 55_000, "correlationId": 3 * step + 2, "bytes": 256}
            | {"copyKind": 2, "srcKind": 2, "dstKind": 1}
            | work
        )
        syncs.append({"correlationId": 3 * step + 3, "streamId": 7, "globalPid": GLOBAL_PID, "syncType": 3})
        ranges.append(
            {"start": at, "end": at + 90_000, "eventType": 59, "globalTid": GLOBAL_TID, "text": None}
            | {"textId": 5, "domainId": 0}
        )
    return {
        "StringIds": [{"id": number + 1, "value": name} for number, name in enumerate(names)],
        "CUPTI_ACTIVITY_KIND_RUNTIME": calls,
        "CUPTI_ACTIVITY_KIND_KERNEL": kernels,
        "CUPTI_ACTIVITY_KIND_MEMCPY": copies,
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": syncs,
        "NVTX_EVENTS": ranges,
        "TARGET_INFO_GPU": [{"id": 0, "name": "NVIDIA H200"}],
        "TARGET_INFO_CUDA_DEVICE": [{"gpuId": 0, "cudaId": 0, "pid": PID}],
        "META_DATA_EXPORT": [
            {"name": "EXPORT_PRODUCT_VERSION", "value": "2026.1.1"},
            {"name": "EXPORT_SCHEMA_VERSION", "value": "3.25.0"},
        ],
    }


def write_sqlite(path: Path, tables: Mapping[str, Rows], *statements: str) -> Path:
    """Write an sqlite export; columns are declared as nsys does, without any check of what is put into them."""
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    for table, rows in tables.items():
        columns = list(rows[0])
        texts = {"value", "name", "text"}
        declared = ", ".join(f'"{name}" {"TEXT" if name in texts else "INTEGER"}' for name in columns)
        connection.execute(f'CREATE TABLE "{table}" ({declared})')
        marks = ", ".join("?" * len(columns))
        connection.executemany(
            f'INSERT INTO "{table}" VALUES ({marks})', ([row[name] for name in columns] for row in rows)
        )
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return path


def write_parquet(folder: Path, tables: Mapping[str, Rows | pa.Table]) -> Path:
    """Write a parquetdir export."""
    folder.mkdir(exist_ok=True)
    for table, rows in tables.items():
        content = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows)
        pq.write_table(content, folder / f"{table}.parquet")
    return folder


# Chrome traces


def kineto_events(steps: int = 12, kernel: str = "decode kernel", marker: str = "decode_step") -> Rows:
    """Return the events of the same loop as torch.profiler writes them."""
    events: Rows = [{"ph": "M", "name": "process_name", "pid": PID, "tid": 0, "args": {"name": "python"}}]
    for step in range(steps):
        at = 1_000 + step * 100
        first = 3 * step + 1
        host = {"ph": "X", "pid": PID, "tid": TID}
        gpu = {"ph": "X", "pid": 0, "tid": 7}
        events += [
            {"cat": "user_annotation", "name": marker, "ts": at, "dur": 90.5, "args": {}} | host,
            _runtime("cudaLaunchKernel", at + 5, 4, first),
            _runtime("cudaMemcpyAsync", at + 12, 3.125, first + 1),
            _runtime("cudaStreamSynchronize", at + 20, 45, first + 2),
            {"cat": "kernel", "name": kernel, "ts": at + 10, "dur": 40, "args": _on(first)} | gpu,
            {"cat": "gpu_memcpy", "name": "Memcpy DtoH (Device -> Pinned)", "ts": at + 51, "dur": 4}
            | {"args": _on(first + 1) | {"bytes": 256}}
            | gpu,
        ]
    return events


def _runtime(name: str, ts: float, dur: float, correlation: int) -> dict[str, Any]:
    args = {"cbid": 1, "correlation": correlation}
    return {"ph": "X", "cat": "cuda_runtime", "name": name, "pid": PID, "tid": TID, "ts": ts, "dur": dur, "args": args}


def _on(correlation: int) -> dict[str, Any]:
    return {"device": 0, "stream": 7, "correlation": correlation, "External id": correlation}


def kineto_document(events: Rows) -> dict[str, Any]:
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "NVIDIA H200"}],
        "cuda_runtime_version": 12040,
        "traceEvents": events,
    }


def paddle_events(steps: int = 12, kernel: str = "decode kernel", marker: str = "ProfileStep") -> Rows:
    """Return the events of the same loop as paddle.profiler writes them."""
    events: Rows = []
    host = {"ph": "X", "pid": PID, "tid": f"{TID}(C++)"}
    for step in range(steps):
        at, first = 1_000 + step * 100, 3 * step + 1
        gpu = {"ph": "X", "pid": 0, "tid": 7}
        calls = (("cudaLaunchKernel", 5, 4), ("cudaMemcpyAsync", 12, 3), ("cudaStreamSynchronize", 20, 45))
        events.append(
            {"cat": "ProfileStep", "name": f"{marker}#{step}", "ts": at, "dur": 90.0, "args": _relative(at)} | host
        )
        for number, (name, offset, length) in enumerate(calls):
            args = {"correlation id": first + number} | _relative(at + offset)
            events.append(
                {"cat": "CudaRuntime", "name": f"{name}[{length}.000 us]", "ts": at + offset, "dur": float(length)}
                | {"args": args}
                | host
            )
        events += [
            {"cat": "Kernel", "name": f"{kernel}[40.000 us]", "ts": at + 10, "dur": 40.0}
            | {"args": {"correlation id": first, "stream": 7} | _relative(at + 10)}
            | gpu,
            {"cat": "Memcpy", "name": "MEMCPY_DtoH[4.000 us]", "ts": at + 51, "dur": 4.0}
            | {"args": {"correlation id": first + 1, "stream": 7, "bytes": 256} | _relative(at + 51)}
            | gpu,
        ]
    return events


def _relative(at: float) -> dict[str, str]:
    return {"start_time": f"{at - 1_000:.3f} us"}


def paddle_document(events: Rows) -> dict[str, Any]:
    return {"schemaVersion": "1.0.2", "displayTimeUnit": "ms", "span_indx": "1", "traceEvents": [*events, {}]}


def write_json(path: Path, document: Any) -> Path:
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


# Runs


def write_run(root: Path, steps: int = 12) -> Path:
    """Save a run of the simulator and return its folder."""
    session = Session(
        SimBackend(30),
        "stop_flag",
        plugins.load("scenarios", "stop_flag").params_type(kernels=3, sequences=4),
        Extent(steps=steps, warmup=1, timeout=30.0),
    )
    run = session.run("async", blocks=1)
    (folder,) = store.create(root, [run])
    for block in run.blocks:
        store.add_block(folder, block)
    store.finish(folder, run)
    return folder


# All of them


def write_good(kind: str, folder: Path) -> Path:
    """Write the good capture of a kind into a folder and return what to analyze."""
    return GOOD[kind](folder)


def write_tables(folder: Path) -> Path:
    """Save a run of the simulator as capture tables and return their folder."""
    capture = capture_of(store.load(write_run(folder.parent / "runs-of-tables")))
    save_capture(capture, folder)
    return folder


GOOD: Mapping[str, Callable[[Path], Path]] = {
    "sqlite": lambda folder: write_sqlite(folder / "good.sqlite", nsys_tables()),
    "parquet": lambda folder: write_parquet(folder / "good_parquet", nsys_tables()),
    "kineto": lambda folder: write_json(folder / "kineto.json", kineto_document(kineto_events())),
    "kineto_gzip": lambda folder: _packed(folder / "kineto.json.gz", kineto_document(kineto_events())),
    "paddle": lambda folder: write_json(folder / "paddle.json", paddle_document(paddle_events())),
    "run": lambda folder: write_run(folder / "runs"),
    "tables": lambda folder: write_tables(folder / "tables"),
}


def _packed(path: Path, document: Any) -> Path:
    path.write_bytes(gzip.compress(json.dumps(document).encode(), mtime=0))
    return path


def files_of(path: Path) -> list[Path]:
    """Return the files that a capture is made of, in order."""
    return sorted(entry for entry in path.rglob("*") if entry.is_file()) if path.is_dir() else [path]


def changed(rows: Rows, changes: Mapping[str, Any], at: Iterable[int] | None = None) -> Rows:
    """Return the rows with these values in some of them, in all by default."""
    chosen = set(range(len(rows)) if at is None else at)
    return [row | changes if number in chosen else dict(row) for number, row in enumerate(rows)]


def with_table(tables: Mapping[str, Rows], name: str, rows: Sequence[dict[str, Any]]) -> dict[str, Rows]:
    return {**tables, name: list(rows)}


# Damage, drawn by hypothesis

_TIMES = st.sampled_from([0, 1, -1, 2**31, 2**53, 2**62, 2**63 - 1, -(2**63), 1_000_000, 1_050_000])
CELLS = st.one_of(
    _TIMES, st.integers(-(2**63), 2**63 - 1), st.none(), st.floats(), st.text(max_size=5), st.binary(max_size=5)
)
"""What SQLite may hold in a column."""

_SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), _TIMES, st.sampled_from(["\ud800", "7"])
)
JSON = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)
"""What a JSON file may hold in a key."""

MUTATIONS = st.lists(
    st.tuples(
        st.sampled_from(["set", "flip", "insert", "delete", "double"]),
        st.integers(0, 1 << 20),
        st.binary(min_size=1, max_size=8),
    ),
    min_size=1,
    max_size=6,
)
"""Changes of bytes, applied by `mutated`."""


def mutated(content: bytes, changes: list[tuple[str, int, bytes]]) -> bytes:
    """Return the content with these changes."""
    result = bytearray(content)
    for what, place, new in changes:
        at = place % (len(result) + 1)
        if what == "set":
            result[at : at + len(new)] = new
        elif what == "flip" and at < len(result):
            result[at] ^= 1 << (new[0] % 8)
        elif what == "insert":
            result[at:at] = new
        elif what == "delete":
            del result[at : at + new[0]]
        elif what == "double":
            result[at:at] = result[at : at + new[0]]
    return bytes(result)
