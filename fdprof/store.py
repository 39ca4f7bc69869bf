"""A run as a folder: run.json and one folder of Parquet tables a block.

    RUN/run.json                 everything that is not a column, with schema_version
    RUN/block-000/*.parquet      calls, ranges, kernels, reads, steps

    COMPARISON/baseline/run.json, COMPARISON/candidate/run.json and their blocks, likewise

A folder appears complete or not at all: it is written beside its place and renamed.  A block is added as soon as it
has finished, so that a later failure does not lose it.
"""

import dataclasses
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fdprof.errors import InputError, UsageError
from fdprof.model import (
    CALLS,
    KERNELS,
    RANGES,
    READS,
    Block,
    CallKind,
    CallSite,
    Capture,
    ClockInfo,
    Environment,
    Group,
    Memory,
    Run,
    Schema,
    Table,
    TensorSpec,
    TokenCheck,
    WrongValue,
)

# History of the format.  1: first.
SCHEMA_VERSION = 1

_STEPS: Schema = {"start_ns": "int64", "end_ns": "int64"}
_TABLES: dict[str, Schema] = {"calls": CALLS, "ranges": RANGES, "kernels": KERNELS, "reads": READS}
_RUN_FILE = "run.json"
_SIDES = ("baseline", "candidate")


def unused_folder(root: Path, name: str) -> Path:
    """Return root/name, or root/name-2 and so on where that exists."""
    folder, number = root / name, 1
    while folder.exists():
        number += 1
        folder = root / f"{name}-{number}"
    return folder


def create(folder: Path, run: Run) -> None:
    """Make the folder of a run that has no blocks yet; UsageError when it exists or cannot be made."""
    _make(folder, lambda scratch: _write_run_file(scratch, run))


def create_comparison(folder: Path, baseline: Run, candidate: Run) -> tuple[Path, Path]:
    """Make the folder of a comparison and return the folders of its two runs, without blocks yet."""

    def fill(scratch: Path) -> None:
        for name, run in zip(_SIDES, (baseline, candidate), strict=True):
            (scratch / name).mkdir()
            _write_run_file(scratch / name, run)

    _make(folder, fill)
    return folder / _SIDES[0], folder / _SIDES[1]


def _make(folder: Path, fill: Callable[[Path], None]) -> None:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise _unwritable(folder, error) from error
    try:
        fill(scratch)
        scratch.chmod(0o755)  # mkdtemp makes it private
        scratch.rename(folder)
    except OSError as error:
        shutil.rmtree(scratch, ignore_errors=True)
        raise _unwritable(folder, error) from error


def add_block(folder: Path, block: Block) -> None:
    """Add a finished block to a run's folder."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    capture = block.capture
    tables = {name: getattr(capture, name).columns for name in _TABLES}
    tables["steps"] = {"start_ns": capture.step_starts_ns, "end_ns": capture.step_ends_ns}

    def fill(scratch: Path) -> None:
        for name, columns in tables.items():
            pq.write_table(pa.table(dict(columns)), scratch / f"{name}.parquet")
        _write_json(scratch / "block.json", _block_document(block))

    _make(folder / f"block-{block.index:03d}", fill)


def finish(folder: Path, run: Run) -> None:
    """Bring run.json up to date: whether the run was interrupted."""
    try:
        _write_run_file(folder, run)
    except OSError as error:
        raise _unwritable(folder, error) from error


def load_any(folder: Path) -> tuple[Run, ...]:
    """Return the one run of a run folder, or baseline and candidate of a comparison's."""
    if (folder / _SIDES[0]).is_dir():
        return tuple(load(folder / name) for name in _SIDES)
    return (load(folder),)


def load(folder: Path) -> Run:
    """Return the run saved in `folder`; InputError with the place when it cannot be read."""
    document = _read_json(folder / _RUN_FILE)
    version = document.get("schema_version")
    if version != SCHEMA_VERSION:
        raise InputError(
            f"{folder / _RUN_FILE} has schema_version {version!r}, this fdprof reads {SCHEMA_VERSION}",
            "read it with the fdprof that wrote it" if isinstance(version, int) else "is this a run folder of fdprof?",
        )
    try:
        blocks = tuple(_load_block(path) for path in sorted(folder.glob("block-*")))
        return Run(
            id=document["id"],
            scenario=document["scenario"],
            mode=document["mode"],
            backend=document["backend"],
            created=document["created"],
            params=document["params"],
            groups=tuple(
                Group(
                    group["name"], tuple(TensorSpec(t["name"], tuple(t["shape"]), t["dtype"]) for t in group["tensors"])
                )
                for group in document["groups"]
            ),
            memory=Memory(document["memory"]),
            lag=document["lag"],
            environment=Environment(**document["environment"]),
            device_work_ns=document["device_work_ns"],
            host_work_ns=document["host_work_ns"],
            caveats=tuple(document["caveats"]),
            interrupted=document["interrupted"],
            blocks=blocks,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{folder / _RUN_FILE}: {type(error).__name__} at {error}", "the run folder is damaged"
        ) from error


def _load_block(folder: Path) -> Block:
    document = _read_json(folder / "block.json")
    tables = {name: _read_table(folder / f"{name}.parquet", schema) for name, schema in _TABLES.items()}
    steps = _read_table(folder / "steps.parquet", _STEPS)
    wrong = document["tokens"]["first_wrong"]
    capture = Capture(
        call_sites=tuple(CallSite(s["name"], CallKind(s["kind"]), s["subject"]) for s in document["call_sites"]),
        range_names=tuple(document["range_names"]),
        step_starts_ns=steps["start_ns"],
        step_ends_ns=steps["end_ns"],
        **tables,
    )
    if len(capture.calls) and int(np.max(capture.calls["call"])) >= len(capture.call_sites):
        raise InputError(f"{folder}: calls.parquet names a call that block.json does not have", "the block is damaged")
    return Block(
        index=document["index"],
        position=document["position"],
        warmup=document["warmup"],
        steps=document["steps"],
        capture=capture,
        clock=ClockInfo(**document["clock"]),
        tokens=TokenCheck(**(document["tokens"] | {"first_wrong": WrongValue(**wrong) if wrong else None})),
    )


def _read_table(path: Path, schema: Schema) -> Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
        return Table.of(schema, {name: table[name].to_numpy() for name in schema})
    except (OSError, KeyError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"cannot read {path}: {reason}", "the run folder is damaged; record it again") from error


def _block_document(block: Block) -> dict[str, Any]:
    return {
        "index": block.index,
        "position": block.position,
        "warmup": block.warmup,
        "steps": block.steps,
        "call_sites": [
            {"name": site.name, "kind": site.kind.value, "subject": site.subject} for site in block.capture.call_sites
        ],
        "range_names": list(block.capture.range_names),
        "clock": dataclasses.asdict(block.clock),
        "tokens": dataclasses.asdict(block.tokens),
    }


def _write_run_file(folder: Path, run: Run) -> None:
    document = {
        "schema_version": SCHEMA_VERSION,
        "id": run.id,
        "scenario": run.scenario,
        "mode": run.mode,
        "backend": run.backend,
        "created": run.created,
        "params": dict(run.params),
        "groups": [dataclasses.asdict(group) for group in run.groups],
        "memory": run.memory.value,
        "lag": run.lag,
        "environment": dataclasses.asdict(run.environment),
        "device_work_ns": run.device_work_ns,
        "host_work_ns": run.host_work_ns,
        "caveats": list(run.caveats),
        "interrupted": run.interrupted,
    }
    _write_json(folder / _RUN_FILE, document)


def _write_json(path: Path, document: dict[str, Any]) -> None:
    write_text(path, json.dumps(document, indent=1) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a file so that it appears whole or not at all."""
    scratch = path.with_name(f".{path.name}.part")
    try:
        scratch.write_text(text, encoding="utf-8")
        scratch.replace(path)
    except OSError:
        scratch.unlink(missing_ok=True)
        raise


def _read_json(path: Path) -> dict[str, Any]:
    if path.parent.is_dir() and not path.exists():
        raise InputError(
            f"{path.parent} is not a run of fdprof: it has no {path.name}", "give the folder that `fdprof run` wrote"
        )
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}", "give the folder that `fdprof run` wrote") from error
    if not isinstance(document, dict):
        raise InputError(f"{path} holds a {type(document).__name__}, expected an object", "the run folder is damaged")
    return document


def _unwritable(folder: Path, error: OSError) -> UsageError:
    return UsageError(f"cannot write {folder}: {error.strerror or error}", "choose a writable place with -o")
