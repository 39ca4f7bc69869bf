"""Compares what the host read with the reference stream: right, stale or wrong, and where first."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fdprof.model import READS, Group, Table, TokenCheck, WrongValue
from fdprof.modes.protocol import Values
from fdprof.tokens import TokenStream

_LOOK_BACK_STEPS = 2048
"""How far back a stale value is looked for: farther than a full launch queue lets the host run ahead."""


def check_tokens(
    groups: Sequence[Group],
    reads: Sequence[tuple[int, Group, Values]],
    reference: TokenStream,
    last_step: int,
    launched_steps: int,
    stop_seen: bool,
) -> tuple[TokenCheck, Table]:
    """Return the check of one block and a row for each read (step of the read, group, values).

    Every group must have been read for each step 0 .. last_step; a step that was not read counts as values missing.
    """
    expected_by_tensor: Mapping[str, npt.NDArray[Any]] = {
        "sampled_token_ids": reference.tokens,
        "not_need_stop": reference.not_need_stop[:, None],
    }
    rows: list[tuple[int, ...]] = []
    indices = {group.name: index for index, group in enumerate(groups)}
    seen: dict[str, set[int]] = {group.name: set() for group in groups}
    values = right = stale_reads = wrong_reads = 0
    first_wrong: WrongValue | None = None
    for step, group, read in reads:
        index = indices[group.name]
        seen[group.name].add(read.step)
        read_right = read_stale = read_wrong = 0
        for tensor in group.tensors:
            stream = expected_by_tensor[tensor.name]
            got = np.asarray(read[tensor.name]).reshape(-1)
            expected = stream[read.step]
            differs = got != expected
            count = int(differs.sum())
            read_right += got.size - count
            if not count:
                continue
            stale = _is_stale(got, stream, read.step) & differs
            read_stale += int(stale.sum())
            read_wrong += count - int(stale.sum())
            at = int(np.argmax(differs))
            found = WrongValue(read.step, at if got.size > 1 else None, tensor.name, int(expected[at]), int(got[at]))
            if first_wrong is None or found.step < first_wrong.step:
                first_wrong = found
        values += read_right + read_stale + read_wrong
        right += read_right
        stale_reads += read_stale > 0
        wrong_reads += read_wrong > 0
        rows.append((step, read.step, index, read_right, read_stale, read_wrong))
    for group in groups:
        size = sum(int(np.prod(tensor.shape)) for tensor in group.tensors)
        values += size * len(set(range(last_step + 1)) - seen[group.name])
    overrun_steps = max(launched_steps - (last_step + 1), 0)
    check = TokenCheck(
        values=values,
        right=right,
        reads=len(reads),
        stale_reads=stale_reads,
        wrong_reads=wrong_reads,
        first_wrong=first_wrong,
        overrun_tokens=overrun_steps * reference.tokens.shape[1],
        stop_seen=stop_seen,
    )
    return check, Table.of_rows(READS, rows)


def _is_stale(got: npt.NDArray[Any], stream: npt.NDArray[Any], step: int) -> npt.NDArray[np.bool_]:
    """Return which values are those of an earlier step, or the initial ones of a buffer (0 or True)."""
    earlier = stream[max(0, step - _LOOK_BACK_STEPS) : step]
    initial = got == (1 if stream.dtype == np.bool_ else 0)
    return np.asarray((earlier == got).any(axis=0) | initial, dtype=np.bool_)
