"""A side of a comparison as a file: step times, where they went, tokens, environment.  Small enough to be committed.

{"schema_version": 1, "kind": "baseline", "label": ..., "fields": {...}, "windows_ns": [[...], ...], ...}
"""

import dataclasses
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fdprof.captured import inflation_document, inflation_in
from fdprof.comparison import Blocked, Field, Side, TokenStream
from fdprof.documents import (
    Value,
    boolean,
    damage_in,
    entries,
    entry,
    mapping,
    natural,
    number,
    read_json,
    text,
    write_json,
)
from fdprof.errors import InputError
from fdprof.model import GpuState, IntColumn
from fdprof.params import MAX_BLOCKS
from fdprof.store import gpu_state
from fdprof.units import printable

# History of the format.  1: first.
SCHEMA_VERSION = 1

_KIND = "baseline"
_KIND_ENTRY = re.compile(rb'"kind"\s*:\s*"baseline"')
_HINT = "give a file that `fdprof compare ... --save-baseline FILE` wrote, or save it again"
_MOST_NS = 1 << 53  # sums of step times stay exact
_MOST_STEPS = 100_000  # of a block, as --steps


def save(path: Path, side: Side, replaces: bool = True) -> None:
    """Write the side so that the file appears whole or not at all; OSError where it cannot be written.

    Without `replaces` FileExistsError where there is one.  Texts are written as `load` takes them: without what could
    drive a terminal.
    """
    tokens = side.tokens
    document = {
        "schema_version": SCHEMA_VERSION,
        "kind": _KIND,
        "label": printable(side.label),
        "source": side.source,
        "fields": _fields_document(side.fields),
        "call": side.call,
        "positions": list(side.positions),
        "windows_ns": [windows.tolist() for windows in side.windows_ns],
        "left_out": side.left_out,
        "parts_ns": None if side.parts_ns is None else {printable(name): ns for name, ns in side.parts_ns.items()},
        "blocked": dataclasses.asdict(side.blocked),
        "means_ns": dict(side.means_ns),
        "limit_ns": side.limit_ns,
        "tokens": None if tokens is None else _tokens_document(tokens),
        "is_right": side.is_right,
        "doubts": list(side.doubts),
        "gpu": [[dataclasses.asdict(state) for state in states] for states in side.gpu],
        "notes": [printable(note) for note in side.notes],
        "inflation": inflation_document(side.inflation),
    }
    write_json(path, document, replaces)


def _fields_document(fields: Mapping[str, Field]) -> dict[str, Field]:
    return {name: printable(value) if isinstance(value, str) else value for name, value in fields.items()}


def _tokens_document(tokens: TokenStream) -> dict[str, Any]:
    return {
        "decided_by": _fields_document(tokens.decided_by),
        "groups": [printable(name) for name in tokens.groups],
        "group": tokens.group.tolist(),
        "value_step": tokens.value_step.tolist(),
        "digest": tokens.digest.tolist(),
        "last_step": tokens.last_step,
    }


HEAD_BYTES = 1 << 16
"""How much of a file `is_baseline` is given: the kind stands near the beginning, also where keys were sorted."""


def is_baseline(head: bytes) -> bool:
    """Return whether a file that begins so is a baseline."""
    return head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{") and _KIND_ENTRY.search(head) is not None


def load(path: Path) -> Side:
    """Return the side saved in a file; InputError with the place when it cannot be read."""
    if not path.exists():
        raise InputError(f"{path} does not exist", _HINT)
    document = read_json(path, _HINT)
    version = document.get("schema_version")
    if document.get("kind") != _KIND:
        raise InputError(f"{path} is no baseline of fdprof: its kind is {str(document.get('kind'))[:40]!r}", _HINT)
    if type(version) is not int or version != SCHEMA_VERSION:
        raise InputError(
            f"{path} has schema_version {str(version)[:40]!r}, this fdprof reads {SCHEMA_VERSION}",
            "read it with the fdprof that wrote it, or save it again",
        )
    with damage_in(path, _HINT):
        windows_ns = entry(document, "windows_ns", lambda value: tuple(_column(block) for block in entries(value)))
        side = Side(
            label=entry(document, "label", text),
            source=entry(document, "source", text),
            fields=entry(document, "fields", _fields),
            call=entry(document, "call", text),
            positions=entry(document, "positions", lambda value: tuple(natural(each) for each in entries(value))),
            windows_ns=windows_ns,
            left_out=entry(document, "left_out", natural),
            parts_ns=entry(document, "parts_ns", _optional(_parts)),
            blocked=entry(document, "blocked", _blocked),
            means_ns=entry(document, "means_ns", _means),
            limit_ns=entry(document, "limit_ns", _optional(number)),
            tokens=entry(document, "tokens", _optional(_tokens)),
            is_right=entry(document, "is_right", _optional(boolean)),
            doubts=entry(document, "doubts", _texts),
            gpu=entry(document, "gpu", lambda value: tuple(_states(block) for block in entries(value))),
            notes=entry(document, "notes", _texts),
            inflation=inflation_in(document.get("inflation")),  # added later: a file without it is read
        )
        _check(side)
    return side


def _check(side: Side) -> None:
    """Raise ValueError where entries that fit alone do not fit together."""
    if not side.windows_ns:
        raise ValueError("windows_ns: no blocks: a baseline has step times")
    if len(side.windows_ns) > MAX_BLOCKS:
        raise ValueError(f"windows_ns: {len(side.windows_ns):,} blocks, at most {MAX_BLOCKS:,} are compared")
    if len(set(side.positions)) != len(side.windows_ns):
        raise ValueError(f"positions: of {len(set(side.positions))} blocks, there are {len(side.windows_ns)}")
    times = {"limit_ns": side.limit_ns, **side.means_ns}
    for name, ns in times.items():
        if ns is not None and not 0 <= ns <= _MOST_NS:
            raise ValueError(f"{name}: {ns:g} ns, expected 0 to 2**53")
    if side.blocked.copy_ns + side.blocked.fence_ns > int(side.steps_ns.sum()):
        raise ValueError("blocked: longer than the steps together")
    if side.left_out > _MOST_STEPS:
        raise ValueError(f"left_out: {side.left_out:,} steps of a block")
    if not side.label:
        raise ValueError("label: it is empty")
    if not isinstance(side.fields.get("tracer"), str):
        raise ValueError("fields: they do not say which tracer")
    if sum(int(windows.sum()) for windows in side.windows_ns) > _MOST_NS:
        raise ValueError("windows_ns: step times longer than 104 days together")
    if side.gpu and len(side.gpu) != len(side.windows_ns):
        raise ValueError(f"gpu: states of {len(side.gpu)} blocks, there are {len(side.windows_ns)}")
    if side.parts_ns is not None and sum(side.parts_ns.values()) != int(side.steps_ns.sum()):
        raise ValueError(f"parts_ns add up to {sum(side.parts_ns.values())}, the steps to {int(side.steps_ns.sum())}")
    if side.tokens is not None:
        lengths = {len(side.tokens.group), len(side.tokens.value_step), len(side.tokens.digest)}
        if len(lengths) > 1:
            raise ValueError("the columns of its tokens differ in length")
        if len(side.tokens.group) and int(side.tokens.group.max()) >= len(side.tokens.groups):
            raise ValueError("tokens of a group that is not there")


def _optional(convert: Callable[[Any], Value]) -> Callable[[Any], Value | None]:
    """Return a conversion that lets null be None."""
    return lambda value: None if value is None else convert(value)


def _column(values: Any) -> IntColumn:
    """Return the step times of a block; ValueError unless each is above 0 and could be one."""
    column = np.array([natural(value) for value in entries(values)], dtype=np.int64)
    if not len(column) or int(column.min()) < 1 or int(column.max()) > _MOST_NS // len(column):
        raise ValueError("a block whose step times are none, 0 ns or longer than 104 days together")
    return column


def _tokens(value: Any) -> TokenStream:
    columns = {
        name: entry(value, name, lambda column: np.array([natural(each) for each in entries(column)], dtype=np.int64))
        for name in ("group", "value_step", "digest")
    }
    return TokenStream(
        decided_by=entry(value, "decided_by", _fields),
        groups=entry(value, "groups", _texts),
        last_step=entry(value, "last_step", natural),
        **columns,
    )


def _blocked(value: Any) -> Blocked:
    return Blocked(entry(value, "copy_ns", natural), entry(value, "fence_ns", natural))


def _states(value: Any) -> tuple[GpuState, ...]:
    return tuple(gpu_state(mapping(state)) for state in entries(value))


def _parts(value: Any) -> dict[str, int]:
    return {name: natural(ns) for name, ns in mapping(value).items()}


def _means(value: Any) -> dict[str, float | None]:
    return {name: _optional(number)(mean) for name, mean in mapping(value).items()}


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(text(each) for each in entries(value))


def _fields(value: Any) -> dict[str, Field]:
    """Return fields of environment or parameters; ValueError where one is none."""
    return {name: entry(value, name, _field) for name in mapping(value)}


def _field(value: Any) -> Field:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return text(value)
    if not isinstance(value, int | float):
        raise ValueError(f"{str(value)[:40]!r} where a text, a number, true, false or null is expected")
    number(value)  # finite and not huge; and an int stays one
    return value
