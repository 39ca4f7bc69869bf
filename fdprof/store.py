"""A run as a folder: run.json and one folder of Parquet tables a block.

    RUN/run.json                 everything that is not a column, with schema_version
    RUN/block-000/*.parquet      calls, ranges, kernels, reads, waits, journal, steps

    COMPARISON/baseline/run.json, COMPARISON/candidate/run.json and their blocks, likewise
    COMPARISON/policy.json       what was asked of the comparison

A folder appears complete or not at all: it is written beside its place and renamed.  A block is added as soon as it
has finished, so that a later failure does not lose it.
"""

import dataclasses
import math
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fdprof import folders
from fdprof.comparison import Policy, Verdict
from fdprof.documents import boolean, damage_in, entries, natural, number, read_json, text, write_json
from fdprof.errors import InputError, UsageError
from fdprof.model import (
    CALLS,
    JOURNAL,
    KERNELS,
    RANGES,
    READS,
    WAITS,
    Act,
    Block,
    BlockLog,
    CallKind,
    CallSite,
    ClockInfo,
    DeviceWork,
    Direction,
    Environment,
    GpuState,
    Group,
    Memory,
    Producer,
    Run,
    Schema,
    Table,
    TensorSpec,
    TokenCheck,
    WrongValue,
)
from fdprof.params import MAX_BLOCKS
from fdprof.parquet import read_table, write_table

# History of the format.  1: first.  2: tables waits and journal with the tensors' names, fault and audited, and what a
# group says beside its tensors; a folder of 1 is read as one without them.  3: digests of reads, states of the GPU, and
# the call that made the run.  Some of 3 lack `work`, and `run` of a block, which were added without a new number: they
# are not known then.
SCHEMA_VERSION = 3
_OLDEST_VERSION = 1

_STEPS: Schema = {"start_ns": "int64", "end_ns": "int64"}
_TABLES: dict[str, Schema] = {
    "calls": CALLS,
    "ranges": RANGES,
    "kernels": KERNELS,
    "reads": READS,
    "waits": WAITS,
    "journal": JOURNAL,
}
_SINCE_2 = frozenset({"waits", "journal"})
_COLUMNS_SINCE_3 = {"reads": "digest"}
_MAY_BE_NONE = frozenset({("waits", "value_step"), ("waits", "group"), ("journal", "tensor")})
"""Columns whose -1 says that there is none."""


_FAR_NS = 86_400 * 10**9

_RUN_FILE = "run.json"
_POLICY_FILE = "policy.json"
_SIDES = ("baseline", "candidate")
_WHICH_FOLDER = "give a folder below runs/ that `fdprof run` or `fdprof compare` saved"
_DAMAGED = "the run folder is damaged; record it again"


def create(root: Path, runs: Sequence[Run], policy: Policy | None = None) -> tuple[Path, ...]:
    """Make the folder of one run, or of a comparison's two, without blocks yet, and return the folder of each run.

    `policy` is what was asked of the comparison, so that it can be reported again as it was.

    It is named by the first run's id and what it is compared with, with -2 and so on where that is taken.
    UsageError when `root` cannot be written.
    """
    name = "-".join([runs[0].id, *(run.mode for run in runs[1:])])
    places = ("",) if len(runs) == 1 else _SIDES

    def fill(scratch: Path) -> None:
        for place, run in zip(places, runs, strict=True):
            (scratch / place).mkdir(exist_ok=True)
            _write_run_file(scratch / place, _unfinished(run))
        if len(runs) > 1 and policy is not None:
            write_json(scratch / _POLICY_FILE, _policy_document(policy))

    folder = folders.make_unused(root, name, fill)
    return tuple(folder / place for place in places)


def place_of(made: Sequence[Path]) -> Path:
    """Return the one folder that `create` made for these."""
    return made[0] if len(made) == 1 else made[0].parent


def _unfinished(run: Run) -> Run:
    """Return the run as interrupted, which it is until `finish` says otherwise: a killed process cannot say so."""
    return replace(run, interrupted=True)


def add_block(folder: Path, block: Block) -> None:
    """Add a finished block to a run's folder."""
    log = block.log
    run = read_json(folder / _RUN_FILE, _DAMAGED).get("id")
    tables = {name: getattr(log, name).columns for name in _TABLES}
    tables["steps"] = {"start_ns": log.step_starts_ns, "end_ns": log.step_ends_ns}

    def fill(scratch: Path) -> None:
        for name, columns in tables.items():
            write_table(scratch / f"{name}.parquet", columns)
        write_json(scratch / "block.json", {"run": run} | _block_document(block))

    place = folder / f"block-{block.index:03d}"
    if not folders.make(place, fill):
        raise UsageError(f"{place} exists", "another process writes into this folder; choose another --runs")


def discard_empty(place: Path) -> bool:
    """Remove the folder of a run or comparison if no block was saved in it; return whether it was removed."""
    if any(place.rglob("block.json")):
        return False
    shutil.rmtree(place, ignore_errors=True)
    return True


def finish(folder: Path, run: Run) -> None:
    """Bring run.json up to date: whether the run was interrupted."""
    try:
        _write_run_file(folder, run)
    except OSError as error:
        raise folders.unwritable(folder, error) from error


def is_run(folder: Path) -> bool:
    """Return whether a folder looks like a saved run or comparison."""
    return (folder / _RUN_FILE).is_file() or all(entry.is_dir() for entry in sides_of(folder))


def holds_run(folder: Path) -> bool:
    """Return whether a folder holds a saved run or comparison, or a part of one."""
    return folder.is_dir() and (is_run(folder) or any(side.is_dir() for side in sides_of(folder)))


def sides_of(folder: Path) -> tuple[Path, ...]:
    """Return the folders of a comparison's two runs."""
    return tuple(folder / name for name in _SIDES)


def load_any(folder: Path) -> tuple[Run, ...]:
    """Return the one run of a run folder, or baseline and candidate of a comparison's."""
    if not folder.exists():
        raise InputError(f"{folder} does not exist", _WHICH_FOLDER)
    if not folder.is_dir():
        raise InputError(f"{folder} is a file, expected a run's folder", _WHICH_FOLDER)
    if (folder / _SIDES[0]).is_dir():
        runs = tuple(load(side) for side in sides_of(folder))
        # One call made both, whether its id was saved or not.
        return tuple(run if run.call else replace(run, call=str(folder)) for run in runs)
    return (load(folder),)


def load_policy(folder: Path) -> Policy:
    """Return what was asked of a saved comparison; the usual where that was not saved."""
    path = folder / _POLICY_FILE
    if not path.exists():
        return Policy()
    document = read_json(path, _DAMAGED)
    with damage_in(path, _DAMAGED):
        limits = {name: document[name] for name in ("max_ratio", "max_p99_ratio")}
        return Policy(
            same_within=number(document["same_within"]),
            allowed=frozenset(text(name) for name in entries(document["allowed"])),
            fail_if=frozenset(Verdict(name) for name in entries(document["fail_if"])),
            **{name: None if limit is None else number(limit) for name, limit in limits.items()},
        )


def _policy_document(policy: Policy) -> dict[str, Any]:
    return dataclasses.asdict(policy) | {
        "allowed": sorted(policy.allowed),
        "fail_if": sorted(verdict.value for verdict in policy.fail_if),
    }


def load_one(folder: Path, advice: str) -> Run:
    """Return the run in a folder, with one finished block at least.

    InputError for the folder of a comparison; `advice` says what can be done with its sides.
    """
    runs = load_any(folder)
    if len(runs) > 1:
        sides = " ".join(str(entry) for entry in sides_of(folder))
        raise InputError(f"{folder} is a comparison: two runs", f"{advice}: {sides}")
    if not runs[0].blocks:
        raise InputError(f"{folder} holds no finished block", "it was interrupted; record it again")
    return runs[0]


def load(folder: Path | str) -> Run:
    """Return the run saved in `folder`; InputError with the place when it cannot be read."""
    folder = Path(folder)
    return _load(folder, sorted(folder.glob("block-*")))


def load_head(folder: Path) -> Run:
    """Return the run saved in `folder` without its blocks, which are not read."""
    return _load(folder, [])


def _load(folder: Path, found: Sequence[Path]) -> Run:
    path = folder / _RUN_FILE
    if folder.is_dir() and not path.exists():
        raise InputError(f"{folder} is not a run of fdprof: it has no {path.name}", _WHICH_FOLDER)
    document = read_json(path, _WHICH_FOLDER)
    if "kind" in document and "groups" not in document:
        raise InputError(f"{path} is a report of fdprof (-o or --json), and no saved run", _WHICH_FOLDER)
    version = document.get("schema_version")
    if type(version) is not int or not _OLDEST_VERSION <= version <= SCHEMA_VERSION:
        raise InputError(
            f"{path} has schema_version {version!r}, this fdprof reads {_OLDEST_VERSION} to {SCHEMA_VERSION}",
            "read it with the fdprof that wrote it" if type(version) is int else "is this a run folder of fdprof?",
        )
    with damage_in(path, _DAMAGED):
        groups = len(entries(document["groups"]))
        if not groups:
            raise ValueError("no groups: a run moves something")
    if len(found) > MAX_BLOCKS:
        raise InputError(f"{folder} has {len(found):,} blocks, at most {MAX_BLOCKS:,} are read", _DAMAGED)
    places = enumerate(found)
    run_id = document.get("id")
    blocks = tuple(_load_block(place, index, version, groups, run_id) for index, place in places)
    with damage_in(path, _DAMAGED):
        if version < 2:
            document |= {"fault": None, "audited": False}
        return Run(
            id=text(document["id"]),
            scenario=text(document["scenario"]),
            mode=text(document["mode"]),
            backend=text(document["backend"]),
            created=text(document["created"]),
            params=_params(document["params"]),
            groups=tuple(_group(entry) for entry in document["groups"]),
            memory=Memory(document["memory"]),
            lag=natural(document["lag"]),
            environment=_environment(document["environment"]),
            device_work_ns=natural(document["device_work_ns"]),
            host_work_ns=natural(document["host_work_ns"]),
            caveats=tuple(text(caveat) for caveat in entries(document["caveats"])),
            fault=None if document["fault"] is None else text(document["fault"]),
            audited=boolean(document["audited"]),
            interrupted=boolean(document["interrupted"]),
            call=text(document["call"]) if version >= 3 else "",
            work=_work(document.get("work")),
            blocks=blocks,
        )


def _load_block(folder: Path, index: int, version: int, groups: int, run: Any) -> Block:
    path = folder / "block.json"
    document = read_json(path, _DAMAGED)
    with damage_in(path, _DAMAGED):
        kept = [name for name in _TABLES if version >= 2 or name not in _SINCE_2]
        rows = {name: natural(document["rows"][name]) for name in (*kept, "steps")}
        tables = {name: Table.of_rows(_TABLES[name], []) for name in _TABLES}
        without = {} if version >= 3 else _COLUMNS_SINCE_3
        tables |= {
            name: read_table(folder / f"{name}.parquet", _TABLES[name], rows[name], _DAMAGED, without.get(name))
            for name in kept
        }
        tensor_names = document["tensor_names"] if version >= 2 else []
        steps = read_table(folder / "steps.parquet", _STEPS, rows["steps"], _DAMAGED)
        if (np.diff(steps["start_ns"]) <= 0).any() or (steps["end_ns"] < steps["start_ns"]).any():
            raise ValueError("steps do not follow one another")
        wrong = document["tokens"]["first_wrong"]
        log = BlockLog(
            call_sites=tuple(
                CallSite(text(s["name"]), CallKind(s["kind"]), text(s["subject"])) for s in document["call_sites"]
            ),
            range_names=tuple(text(name) for name in entries(document["range_names"])),
            tensor_names=tuple(text(name) for name in entries(tensor_names)),
            step_starts_ns=steps["start_ns"],
            step_ends_ns=steps["end_ns"],
            **tables,
        )
        block = Block(
            index=natural(document["index"]),
            position=natural(document["position"]),
            warmup=natural(document["warmup"]),
            steps=natural(document["steps"]),
            log=log,
            clock=ClockInfo(**document["clock"]),
            tokens=TokenCheck(**(document["tokens"] | {"first_wrong": WrongValue(**wrong) if wrong else None})),
            gpu=tuple(gpu_state(entry) for entry in entries(document["gpu"])) if version >= 3 else (),
        )
        for value in (
            block.clock.error_ns,
            block.tokens.values,
            block.tokens.right,
            block.tokens.reads,
            block.tokens.stale_reads,
            block.tokens.wrong_reads,
            block.tokens.overrun_tokens,
        ):
            natural(value)
        if document.get("run", run) != run:
            raise ValueError("it is of another run")
        if block.index != index:
            raise ValueError(f"index {block.index} where block {index} is expected: a block is missing")
    limits = {
        "calls": {"call": len(log.call_sites), "step": len(steps)},
        "ranges": {"range": len(log.range_names), "step": len(steps)},
        "kernels": {"step": len(steps)},
        "reads": {"step": len(steps), "value_step": len(steps), "group": groups},
        "waits": {"step": len(steps), "value_step": len(steps), "group": groups},
        "journal": {"act": len(Act), "tensor": len(log.tensor_names)},
    }
    for name in ("calls", "ranges", "kernels", "waits"):
        _require_times(folder / f"{name}.parquet", tables[name], steps)
    if (tables["waits"]["cpu_ns"] < -1).any():
        raise InputError(f"{folder / 'waits'}.parquet: a wait used less than no CPU time", _DAMAGED)
    for name, columns in limits.items():
        for column, limit in columns.items():
            lowest = -1 if (name, column) in _MAY_BE_NONE else 0
            values = tables[name][column]
            if len(values) and not lowest <= int(values.min()) <= int(values.max()) < limit:
                got = f"{values.min()} to {values.max()}"
                raise InputError(
                    f"{folder / name}.parquet: {column} is {got}, expected {lowest} to {limit - 1}", _DAMAGED
                )
    return block


def _require_times(path: Path, table: Table, steps: Table) -> None:
    """Raise InputError where a row ends before it begins, or is far from the block's steps."""
    if not len(table):
        return
    start, end = table["start_ns"], table["end_ns"]
    if (end < start).any():
        raise InputError(f"{path}: row {int(np.argmax(end < start))} ends before it begins", _DAMAGED)
    if len(steps) and (
        int(start.min()) < int(steps["start_ns"][0]) - _FAR_NS or int(end.max()) > int(steps["end_ns"][-1]) + _FAR_NS
    ):
        raise InputError(f"{path}: times lie more than a day from the steps", _DAMAGED)


def _environment(value: Any) -> Environment:
    """Return an environment whose texts can be printed."""
    cpus, nvtx = value["cpu_count"], value.get("nvtx", False)
    texts = {name: entry for name, entry in value.items() if name not in ("cpu_count", "nvtx")}
    for name, entry in texts.items():
        if entry is not None or name in ("fdprof", "python", "os", "cpu"):
            text(entry)
    return Environment(**texts, cpu_count=None if cpus is None else natural(cpus), nvtx=boolean(nvtx))


def _work(value: Any) -> DeviceWork | None:
    return None if value is None else DeviceWork(natural(value["kernel_ns"]), natural(value["step_ns"]))


def _params(value: Any) -> dict[str, Any]:
    """Return the parameters of a run; those that every report prints must be there."""
    for name in ("sequences", "kernels", "steps", "warmup"):
        natural(value[name])
    for name, entry in value.items():
        if isinstance(entry, float) and not math.isfinite(entry):
            raise ValueError(f"parameter {name} is {entry}")
    return dict(value)


def _group(entry: Any) -> Group:
    tensors = tuple(
        TensorSpec(text(t["name"]), tuple(natural(extent) for extent in t["shape"]), np.dtype(t["dtype"]).name)
        for t in entries(entry["tensors"])
    )
    for tensor in tensors:
        natural(tensor.size_bytes)
    memory = entry.get("op_memory")
    return Group(
        text(entry["name"]),
        tensors,
        direction=Direction(entry.get("direction", Direction.TO_HOST.value)),
        made_by=Producer(entry.get("made_by", Producer.UPDATE.value)),
        needed_in_step=boolean(entry.get("needed_in_step", False)),
        per_step=tuple(text(name) for name in entries(entry.get("per_step", []))),
        op_memory=None if memory is None else Memory(memory),
    )


def _group_document(group: Group) -> dict[str, Any]:
    return dataclasses.asdict(group) | {
        "direction": group.direction.value,
        "made_by": group.made_by.value,
        "op_memory": None if group.op_memory is None else group.op_memory.value,
    }


def gpu_state(entry: Any) -> GpuState:
    """Return what NVML said, from a document; ValueError where it could not have."""
    numbers = {name: entry[name] for name in ("sm_clock_mhz", "memory_clock_mhz", "temperature_c", "power_mw")}
    throttle = entry["throttle"]
    return GpuState(
        **{name: None if value is None else natural(value) for name, value in numbers.items()},
        throttle=None if throttle is None else tuple(text(reason) for reason in entries(throttle)),
    )


def _block_document(block: Block) -> dict[str, Any]:
    return {
        "index": block.index,
        "position": block.position,
        "warmup": block.warmup,
        "steps": block.steps,
        "call_sites": [
            {"name": site.name, "kind": site.kind.value, "subject": site.subject} for site in block.log.call_sites
        ],
        "range_names": list(block.log.range_names),
        "tensor_names": list(block.log.tensor_names),
        "rows": {name: len(getattr(block.log, name)) for name in _TABLES} | {"steps": len(block.log.step_starts_ns)},
        "clock": dataclasses.asdict(block.clock),
        "tokens": dataclasses.asdict(block.tokens),
        "gpu": [dataclasses.asdict(state) for state in block.gpu],
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
        "groups": [_group_document(group) for group in run.groups],
        "memory": run.memory.value,
        "lag": run.lag,
        "environment": dataclasses.asdict(run.environment),
        "device_work_ns": run.device_work_ns,
        "host_work_ns": run.host_work_ns,
        "caveats": list(run.caveats),
        "fault": run.fault,
        "audited": run.audited,
        "interrupted": run.interrupted,
        "call": run.call,
        "work": None if run.work is None else dataclasses.asdict(run.work),
    }
    write_json(folder / _RUN_FILE, document)
