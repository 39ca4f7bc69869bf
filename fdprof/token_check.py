"""Compares what the host read with the reference: right, stale or wrong, and where first."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fdprof.backends.protocol import POISON_BYTE
from fdprof.model import READS, Direction, Group, Table, TensorSpec, TokenCheck, WrongValue
from fdprof.modes.protocol import Values
from fdprof.tokens import Reference

_LOOK_BACK_STEPS = 2048
"""How far back a stale value is looked for: farther than a full launch queue lets the host run ahead."""


@dataclass(frozen=True, slots=True)
class Read:
    """One read of a group at `step`.  `poisoned`: its tensors that still held the audit's poison, in whole or part."""

    step: int
    group: Group
    values: Values
    poisoned: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Count:
    right: int = 0
    stale: int = 0
    wrong: int = 0


def check_tokens(
    groups: Sequence[Group], reads: Sequence[Read], reference: Reference, updates: int, stop_seen: bool
) -> tuple[TokenCheck, Table]:
    """Return the check of one block and a row for each read.

    Every group to the host must have been read for each step 0 .. last_step; a step that was not read counts as values
    missing.  `updates`: how many steps' tokens were computed.
    """
    last_step = reference.spec.last_step
    indices = {group.name: index for index, group in enumerate(groups)}
    seen: dict[str, set[int]] = {group.name: set() for group in groups if group.direction is Direction.TO_HOST}
    rows: list[tuple[int, ...]] = []
    total = _Count()
    stale_reads = wrong_reads = 0
    first_wrong: WrongValue | None = None
    for read in reads:
        value_step = read.values.step
        seen[read.group.name].add(value_step)
        count = _Count()
        for tensor in read.group.tensors:
            found = _check_tensor(tensor, read, reference, count)
            if found is not None and (first_wrong is None or found.step < first_wrong.step):
                first_wrong = found
        total.right += count.right
        total.stale += count.stale
        total.wrong += count.wrong
        stale_reads += count.stale > 0
        wrong_reads += count.wrong > 0
        index = indices[read.group.name]
        rows.append((read.step, value_step, index, count.right, count.stale, count.wrong, digest_of(read)))
    missing = sum(
        len(set(range(last_step + 1)) - seen[group.name]) * sum(tensor.elements for tensor in group.tensors)
        for group in groups
        if group.name in seen
    )
    check = TokenCheck(
        values=total.right + total.stale + total.wrong + missing,
        right=total.right,
        reads=len(reads),
        stale_reads=stale_reads,
        wrong_reads=wrong_reads,
        first_wrong=first_wrong,
        overrun_tokens=max(updates - (last_step + 1), 0) * reference.spec.sequences,
        stop_seen=stop_seen,
    )
    return check, Table.of_rows(READS, rows)


def digest_of(read: Read) -> int:
    """Return a digest of all values of a read, 0 to 2**63 - 1: equal for equal values, whatever held them."""
    digest = hashlib.blake2b(digest_size=8)
    for tensor in read.group.tensors:
        digest.update(np.asarray(read.values[tensor.name], dtype=tensor.dtype).tobytes())
    return int.from_bytes(digest.digest(), "little") >> 1


def _check_tensor(tensor: TensorSpec, read: Read, reference: Reference, count: _Count) -> WrongValue | None:
    """Count one tensor of a read and return its first value that is not right."""
    step = read.values.step
    stream = reference.stream(tensor)
    got = np.asarray(read.values[tensor.name]).reshape(-1)
    expected = stream[step]
    # NumPy takes a poisoned byte of a bool tensor for True.
    differs = (got != expected) | _is_poison(got)
    # A flag is one byte, and a poisoned one reads as True: the byte that was seen decides, not what it came out as.
    if tensor.size_bytes == 1 and tensor.name in read.poisoned:
        differs = np.ones_like(differs)
    wrong = int(differs.sum())
    count.right += got.size - wrong
    if not wrong:
        return None
    stale = int((_is_stale(got, stream, step) & differs).sum())
    count.stale += stale
    count.wrong += wrong - stale
    at = int(np.argmax(differs))
    row = _row(tensor, at, reference.spec.sequences)
    return WrongValue(step, row, tensor.name, expected[at].item(), got[at].item())


def _row(tensor: TensorSpec, element: int, sequences: int) -> int | None:
    """Return the sequence that an element belongs to; None for a tensor that has none."""
    if tensor.shape[0] != sequences or tensor.elements == 1:
        return None
    return element // (tensor.elements // sequences)


def _is_stale(got: npt.NDArray[Any], stream: npt.NDArray[Any], step: int) -> npt.NDArray[np.bool_]:
    """Return which values are those of an earlier step, a buffer's initial ones (0 or True), or poison."""
    earlier = stream[max(0, step - _LOOK_BACK_STEPS) : step]
    is_flag = stream.dtype == np.bool_
    initial = got == (1 if is_flag else 0)
    return np.asarray((earlier == got).any(axis=0) | initial | _is_poison(got), dtype=np.bool_)


def _is_poison(got: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    raw = np.ascontiguousarray(got).view(np.uint8).reshape(got.size, got.itemsize)
    return np.asarray((raw == POISON_BYTE).all(axis=1), dtype=np.bool_)
