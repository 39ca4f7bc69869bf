"""Reads the call stacks that nsys recorded at CUDA calls: native ones from its sqlite, Python's from its JSON.

`nsys export --type sqlite` leaves Python's stacks out: each is a binary payload of an NVTX mark of the domain
"Python Backtrace".  The payload was read off exports of nsys 2024.2: a head of three uint32 (the second is 1, the third
counts frames) and four bytes without meaning, then for each frame, the innermost first, two uint64 (the strings of
function and file) and a uint32 (the line) with four such bytes behind it.
"""

from __future__ import annotations

import base64
import html
import json
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fdprof.call_stacks import CallStack, Frame
from fdprof.capture import NONE
from fdprof.errors import InputError
from fdprof.importers._nsys_columns import MISSING, Columns, decoded
from fdprof.importers._nsys_tables import AGAIN, open_tables
from fdprof.importers.protocol import Progress
from fdprof.model import IntColumn

_RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
_CHAINS = "CUDA_CALLCHAINS"
_DIAGNOSTICS = "DIAGNOSTIC_EVENT"

_PYTHON_DOMAIN = "Python Backtrace"
_DOMAIN_CREATE = 75
_HEAD = struct.Struct("<III4x")
_FRAME = struct.Struct("<QQI4x")
_MAX_FRAMES = 1024  # deeper than Python lets a stack get by default
_AFTER_NS = 200_000  # the stack is taken when the call returns, which takes a moment


@dataclass(frozen=True, slots=True)
class PythonStack:
    """Python's frames at one moment of a thread, the innermost first."""

    thread: int  # nsys's globalTid
    time_ns: int
    frames: tuple[Frame, ...]


def call_stacks(
    export: Path, python: Iterable[PythonStack] = (), progress: Progress = lambda _: None
) -> tuple[CallStack, ...]:
    """Return the CUDA calls of an sqlite export that have a stack, native or Python's, equal ones counted together."""
    source = Columns(export, open_tables(export), "an export of nsys", progress)
    rows = source.read(_RUNTIME, ["start", "end", "globalTid", "correlationId", "nameId"], optional=["callchainId"])
    if rows is None:
        return ()
    chains = _chains(source)
    chain = _chain_of(rows["callchainId"], chains)
    python_of = _python_of(rows, python)
    names, name = source.names.all(), source.named(rows["nameId"])
    # nsys repeats a call that has a stack, under another class and with the same correlation.
    seen: dict[tuple[int, int], tuple[str, int, tuple[Frame, ...]]] = {}
    has_stack = chain != MISSING
    has_stack[list(python_of)] = True
    for row in np.flatnonzero((name != MISSING) & has_stack).tolist():
        key = (int(rows["globalTid"][row]), int(rows["correlationId"][row]))
        _, chain_before, frames_before = seen.get(key, ("", MISSING, ()))
        its_chain = int(chain[row])
        seen[key] = (
            names[name[row]],
            chain_before if its_chain == MISSING else its_chain,
            python_of.get(row, frames_before),
        )
    counts = Counter((call, chains.get(its_chain, ()), frames) for call, its_chain, frames in seen.values())
    return tuple(CallStack(call, count, native, frames) for (call, native, frames), count in counts.items())


def messages(export: Path) -> tuple[str, ...]:
    """Return what nsys says of its own recording, each message once."""
    tables = open_tables(export)
    if "text" not in tables.columns(_DIAGNOSTICS):
        return ()
    texts = decoded(tables.read(_DIAGNOSTICS, ["text"]).column("text"))
    return tuple(dict.fromkeys(text for text in texts if isinstance(text, str)))


def python_stacks(document: Path) -> tuple[PythonStack, ...]:
    """Return the Python stacks of a JSON export, a line an event; InputError when it is no such file."""
    found: list[tuple[int, int, PythonStack]] = []
    domains: set[tuple[int, int]] = set()
    try:
        with document.open(encoding="utf-8", errors="replace") as file:
            strings = _strings(json.loads(file.readline() or "null"), document)
            for event in _nvtx_events(file):
                thread, domain = int(event.get("GlobalTid", 0)), int(event.get("DomainId", 0))
                if event.get("Type") == _DOMAIN_CREATE and event.get("Text") == _PYTHON_DOMAIN:
                    domains.add((thread >> 24, domain))
                frames = _python_frames(event, strings)
                if frames:
                    stack = PythonStack(thread, int(event.get("Timestamp", 0)), frames)
                    found.append((thread >> 24, domain, stack))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"cannot read Python's call stacks in {document}: {error}", AGAIN) from error
    return tuple(stack for process, domain, stack in found if (process, domain) in domains)


def _strings(first: Any, document: Path) -> list[str]:
    strings = first.get("data") if isinstance(first, dict) else None
    if not isinstance(strings, list):
        raise InputError(f"{document} does not begin with the strings of an nsys export", AGAIN)
    return strings


def _nvtx_events(lines: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the NVTX events that may matter; the other lines, which are most of the file, are not decoded."""
    for line in lines:
        if '"BinaryData"' in line or _PYTHON_DOMAIN in line:
            event = json.loads(line).get("NvtxEvent")
            if isinstance(event, dict):
                yield event


def _python_frames(event: Mapping[str, Any], strings: list[str]) -> tuple[Frame, ...]:
    """Return the frames in an event's payload; none where it is no such payload."""
    payload = event.get("Payload")
    parts = payload.get("BinaryData") if isinstance(payload, dict) else None
    data = base64.b64decode(parts[0].get("Data", "")) if parts else b""
    if len(data) < _HEAD.size:
        return ()
    _, _, count = _HEAD.unpack_from(data)
    if count > _MAX_FRAMES or len(data) != _HEAD.size + count * _FRAME.size:
        return ()
    frames = (_FRAME.unpack_from(data, _HEAD.size + at * _FRAME.size) for at in range(count))
    return tuple(Frame(_text(strings, function), _text(strings, file), line) for function, file, line in frames)


def _text(strings: list[str], number: int) -> str:
    return html.unescape(strings[number]) if number < len(strings) else f"(string {number})"  # it writes &lt;module&gt;


def _chains(source: Columns) -> dict[int, tuple[Frame, ...]]:
    """Return the frames of each call chain, the innermost first."""
    columns = source.read(_CHAINS, ["id", "symbol", "module", "stackDepth"])
    if columns is None:
        return {}
    names = source.names.all()
    functions, modules = source.named(columns["symbol"]), source.named(columns["module"])
    chains: dict[int, list[Frame]] = {}
    for row in np.lexsort((columns["stackDepth"], columns["id"])).tolist():
        function, module = int(functions[row]), int(modules[row])
        frame = Frame("?" if function == MISSING else names[function], "" if module == MISSING else names[module])
        chains.setdefault(int(columns["id"][row]), []).append(frame)
    return {number: tuple(frames) for number, frames in chains.items()}


def _chain_of(ids: IntColumn, chains: Mapping[int, object]) -> IntColumn:
    """Return the chain of each call, MISSING for none.

    Exports of 2022 count chains from 1 and refer to them from 0 (seen in schema 2.9: a cudaMalloc refers to 0, and the
    first chain, which ends in cudaMalloc, is 1).
    """
    given = ids[ids != MISSING]
    if not len(given) or not chains:
        return np.full(len(ids), MISSING, dtype=np.int64)
    shift = 1 if int(given.min()) == 0 and 0 not in chains else 0
    shifted = np.where(ids == MISSING, MISSING, ids + shift)
    known = np.isin(shifted, np.array(list(chains), dtype=np.int64))
    return np.where(known, shifted, MISSING)


def _python_of(rows: Mapping[str, IntColumn], stacks: Iterable[PythonStack]) -> dict[int, tuple[Frame, ...]]:
    """Return Python's frames by row: a stack belongs to the call of its thread that began last before it."""
    found: dict[int, tuple[Frame, ...]] = {}
    by_thread: dict[int, list[PythonStack]] = {}
    for stack in stacks:
        by_thread.setdefault(stack.thread, []).append(stack)
    for thread, its in by_thread.items():
        calls = np.flatnonzero(rows["globalTid"] == thread)
        calls = calls[np.argsort(rows["start"][calls], kind="stable")]
        times = np.array([stack.time_ns for stack in its], dtype=np.int64)
        last = np.searchsorted(rows["start"][calls], times, side="right") - 1
        for stack, at in zip(its, last.tolist(), strict=True):
            row = int(calls[at]) if at >= 0 else NONE
            if row != NONE and stack.time_ns <= int(rows["end"][row]) + _AFTER_NS:
                found[row] = stack.frames
    return found
