"""The values that every backend must produce, as pure functions of (seed, row, step).

The decode kernels (ops/csrc) and the simulator make the same values step by step from their own state; this module
computes the token stream in closed form, request by request, so that an error in either shows.  It knows no backend
and no mode.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fdprof.model import Direction, Group, TensorSpec

IDLE_TOKEN = -1
"""What a row without a request yields, as in FastDeploy's output message."""

STEP_TAGS = 8
"""The low three bits of every token are step % 8: a value up to seven steps stale can never look right."""

TOKEN_VALUES = 16_383
"""Ordinary tokens lie in [8, 8 * (TOKEN_VALUES + 1)); 0..7 are the end-of-sequence ids, one for each step tag."""

KV_BLOCK_TOKENS = 64
"""Tokens that a block of the KV cache holds in FastDeploy."""

MAX_PROMPT_TOKENS = 4096
"""Requests that the device takes by itself have prompts of 1 to this many tokens."""

INSERTED_REQUESTS = 2**40
"""Request ids from here on were inserted by the host: INSERTED_REQUESTS + step."""

INSERT_TASK = "insert_task"
"""The tensor to the device that says which row takes an inserted request: (step, row, request, 0)."""

_ACCEPT_SALT = 0x414343455054
_PROMPT_SALT = 0x50524F4D5054
_U64 = np.uint64
UInt64s = npt.NDArray[np.uint64]


def mix64(values: npt.ArrayLike) -> UInt64s:
    """Return the SplitMix64 output of each 64-bit value (Steele, Lea, Flood, OOPSLA 2014)."""
    with np.errstate(over="ignore"):
        z = np.asarray(values, dtype=_U64) + _U64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> _U64(30))) * _U64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> _U64(27))) * _U64(0x94D049BB133111EB)
        return np.asarray(z ^ (z >> _U64(31)), dtype=_U64)


def output_lengths(seed: int, requests: npt.ArrayLike, mean_length: int) -> npt.NDArray[np.int64]:
    """Return each request's output length in tokens: uniform on 1 .. 2 * mean_length - 1."""
    ids = np.asarray(requests, dtype=_U64)
    with np.errstate(over="ignore"):
        draws = mix64(mix64(seed) ^ (ids * _U64(2) + _U64(1)))
    return (_U64(1) + draws % _U64(2 * mean_length - 1)).astype(np.int64)


def prompt_lengths(seed: int, requests: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return each request's prompt length in tokens: uniform on 1 .. MAX_PROMPT_TOKENS."""
    draws = mix64(mix64(_U64(seed) ^ _U64(_PROMPT_SALT)) ^ np.asarray(requests, dtype=_U64))
    return (_U64(1) + draws % _U64(MAX_PROMPT_TOKENS)).astype(np.int64)


def accepted_tokens(seed: int, rows: npt.ArrayLike, step: npt.ArrayLike, draft_tokens: int) -> npt.NDArray[np.int64]:
    """Return how many of 1 + draft_tokens tokens each row would accept at `step`: uniform on 1 .. draft_tokens + 1."""
    with np.errstate(over="ignore"):
        index = np.asarray(rows, dtype=_U64) * _U64(2**32) + np.asarray(step, dtype=_U64)
        draws = mix64(mix64(_U64(seed) ^ _U64(_ACCEPT_SALT)) + index)
    return (_U64(1) + draws % _U64(draft_tokens + 1)).astype(np.int64)


def ordinary_tokens(
    seed: int,
    requests: npt.ArrayLike,
    positions: npt.ArrayLike,
    steps: npt.ArrayLike,
    prompt_hashes: npt.ArrayLike = 0,
) -> npt.NDArray[np.int64]:
    """Return the token of each (request, position in its output, step) that is not the last of its request.

    `prompt_hashes` are those of inserted requests, as `inbox_hash` gives them; 0 for the others.
    """
    ids = np.asarray(requests, dtype=_U64)
    with np.errstate(over="ignore"):
        key = mix64(_U64(seed) ^ np.asarray(prompt_hashes, dtype=_U64))
        draws = mix64(mix64(key ^ (ids * _U64(2))) + np.asarray(positions, dtype=_U64))
    values = (draws % _U64(TOKEN_VALUES) + _U64(1)).astype(np.int64)
    return values * STEP_TAGS + np.asarray(steps, dtype=np.int64) % STEP_TAGS


def name_tag(name: str) -> int:
    """Return the 64-bit FNV-1a hash of a tensor's name: payloads of two tensors never look alike."""
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def payload(seed: int, spec: TensorSpec, steps: npt.ArrayLike) -> npt.NDArray[Any]:
    """Return what a tensor of no meaning to the loop holds at each step: [steps, elements] of its dtype.

    A draw is mix64(mix64(mix64(seed) ^ name_tag) + step * 2**32 + element).  int64 is draw % 2**31 * 8 + step % 8,
    int32 draw % 2**27 * 8 + step % 8, float32 -(draw % 2**20 * 8 + step % 8) / 2**16 (exact), bool draw % 2.
    """
    step = np.atleast_1d(np.asarray(steps, dtype=_U64))[:, None]
    elements = np.arange(int(np.prod(spec.shape)), dtype=_U64)[None, :]
    with np.errstate(over="ignore"):
        draws = mix64(mix64(mix64(seed) ^ _U64(name_tag(spec.name))) + step * _U64(2**32) + elements)
    tag = step % _U64(STEP_TAGS)
    if spec.dtype == "int64":
        return np.asarray((draws % _U64(2**31) * _U64(STEP_TAGS) + tag).astype(np.int64))
    if spec.dtype == "int32":
        return np.asarray((draws % _U64(2**27) * _U64(STEP_TAGS) + tag).astype(np.int32))
    if spec.dtype == "float32":
        return np.asarray(-((draws % _U64(2**20) * _U64(STEP_TAGS) + tag).astype(np.float64)) / 2**16, np.float32)
    assert spec.dtype == "bool", spec
    return np.asarray(draws % _U64(2) == 1)


PAYLOAD_DTYPES = ("int64", "int32", "float32", "bool")


def inbox_hash(arrays: Sequence[tuple[TensorSpec, npt.NDArray[Any]]]) -> int:
    """Return the hash of what was sent to the device: the sum, modulo 2**64, of a draw for each 4-byte word.

    The draw of word i of a tensor is mix64(name_tag + i * 2**32 + word).  INSERT_TASK is not hashed.
    """
    total = _U64(0)
    with np.errstate(over="ignore"):
        for spec, array in arrays:
            words = np.ascontiguousarray(array).reshape(-1).view(np.uint32).astype(_U64)
            index = np.arange(len(words), dtype=_U64) * _U64(2**32)
            total = total + mix64(_U64(name_tag(spec.name)) + index + words).sum(dtype=_U64)
    return int(total)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSpec:
    """What shapes the token stream of a block.

    `last_step`: the token budget ends there, and every row's request with it.  `kv_block_tokens`: a row that has made
    so many tokens since its request began, or since its last block, waits one step for another KV-cache block; 0 for
    never.  `draft_tokens`: a row makes 1 to 1 + draft_tokens tokens a step.  `insert_every`: at each multiple of it
    the host inserts a request into one row, whatever that row is doing; 0 for never.
    """

    seed: int
    sequences: int
    mean_length: int
    last_step: int
    kv_block_tokens: int = 0
    draft_tokens: int = 0
    insert_every: int = 0

    def inserted_row(self, step: int) -> int | None:
        """Return the row that takes a request at `step`, None when none does: rows in turn."""
        if not self.insert_every or step == 0 or step % self.insert_every or step > self.last_step:
            return None
        return (step // self.insert_every - 1) % self.sequences


def sent_arrays(spec: StreamSpec, group: Group, step: int) -> list[npt.NDArray[Any]]:
    """Return what the host sends in a group to the device at `step`, in the order of the group's tensors."""
    row = spec.inserted_row(step)
    task = np.array([step, -1 if row is None else row, INSERTED_REQUESTS + step, 0], dtype=np.int64)
    return [
        task if tensor.name == INSERT_TASK else payload(spec.seed, tensor, step).reshape(tensor.shape)
        for tensor in group.tensors
    ]


class Reference:
    """What each tensor to the host must hold at each step of a block.

    `tokens`: int64 [steps, sequences, draft_tokens + 1], the accepted ones first and IDLE_TOKEN behind them.
    `active_rows`: int64 [steps], rows that make tokens at that step.
    """

    def __init__(self, spec: StreamSpec, groups: Sequence[Group], steps: int) -> None:
        self.spec = spec
        self.steps = steps
        rows, width = spec.sequences, spec.draft_tokens + 1
        self.tokens = np.full((steps, rows, width), IDLE_TOKEN, dtype=np.int64)
        self._accepted = np.zeros((steps, rows), dtype=np.int64)
        self._seq_len = np.zeros((steps, rows), dtype=np.int64)
        self._prompt_len = np.zeros((steps, rows), dtype=np.int64)
        self._blocked = np.zeros((steps, rows), dtype=np.bool_)
        self._inserted = self._insertions(groups)
        for row in range(rows):
            self._fill_row(row)
        self.active_rows: npt.NDArray[np.int64] = (self._accepted > 0).sum(axis=1)
        self._streams: dict[str, npt.NDArray[Any]] = {}

    def stream(self, tensor: TensorSpec) -> npt.NDArray[Any]:
        """Return [steps, elements]: what the tensor must hold at each step."""
        found = self._streams.get(tensor.name)
        if found is None:
            found = self._streams[tensor.name] = self._made(tensor)
        return found

    def _made(self, tensor: TensorSpec) -> npt.NDArray[Any]:
        spec, at = self.spec, np.arange(self.steps)
        known: Mapping[str, Any] = {
            "sampled_token_ids": lambda: self.tokens[:, :, 0],
            "not_need_stop": lambda: at[:, None] < spec.last_step,
            "seq_lens_this_time": lambda: (self._accepted > 0).astype(np.int32),
            "is_block_step": lambda: self._blocked,
            "accept_tokens": lambda: self.tokens.reshape(self.steps, -1),
            "accept_num": lambda: self._accepted.astype(np.int32),
            "seq_lens_decoder": lambda: self._seq_len.astype(np.int32),
            "prompt_lens": lambda: self._prompt_len,
            "real_output_token_num": lambda: (self.active_rows * (spec.draft_tokens + 1)).astype(np.int32)[:, None],
        }
        if tensor.name in known:
            return np.asarray(known[tensor.name]())
        return payload(spec.seed, tensor, at)

    def _insertions(self, groups: Sequence[Group]) -> dict[int, list[tuple[int, int]]]:
        """Return (step, prompt hash) of the insertions of each row, in order."""
        spec = self.spec
        found: dict[int, list[tuple[int, int]]] = {}
        sent = [group for group in groups if group.direction is Direction.TO_DEVICE]
        for step in range(min(self.steps, spec.last_step + 1)):
            row = spec.inserted_row(step)
            if row is None:
                continue
            arrays = [
                pair for group in sent for pair in zip(group.tensors, sent_arrays(spec, group, step), strict=True)
            ]
            found.setdefault(row, []).append((step, inbox_hash([p for p in arrays if p[0].name != INSERT_TASK])))
        return found

    def _fill_row(self, row: int) -> None:
        """Fill the row from insertion to insertion."""
        live = min(self.steps, self.spec.last_step + 1)
        inserted = [(step, INSERTED_REQUESTS + step, value) for step, value in self._inserted.get(row, [])]
        starts = [(0, row, 0), *inserted]
        ends = [step for step, *_ in starts[1:]] + [live]
        fill = self._fill_drafted if self.spec.draft_tokens else self._fill_plain
        for (start, request, prompt_hash), end in zip(starts, ends, strict=True):
            if start < end:
                fill(row, start, end, request, prompt_hash)

    def _fill_plain(self, row: int, start: int, end: int, request: int, prompt_hash: int) -> None:
        """Fill steps start .. end - 1, one token a step, from a request that begins at `start`."""
        spec = self.spec
        at = np.arange(start, end)
        # Enough requests to cover the stretch even if each yields one token.
        requests = request + spec.sequences * np.arange(end - start, dtype=np.int64)
        lengths = output_lengths(spec.seed, requests, spec.mean_length)
        block = spec.kv_block_tokens
        durations = lengths + (lengths - 1) // block if block else lengths
        ends = np.cumsum(durations)
        index = np.searchsorted(ends, at - start, side="right")
        into = at - start - (ends[index] - durations[index])  # steps since the request began
        position = into - into // (block + 1) if block else into
        is_blocked = into % (block + 1) == block if block else np.zeros(len(at), dtype=np.bool_)
        is_last = ~is_blocked & ((position == lengths[index] - 1) | (at == spec.last_step))
        hashes = np.where(index == 0, np.uint64(prompt_hash), np.uint64(0))
        token = ordinary_tokens(spec.seed, requests[index], position, at, hashes)
        token = np.where(is_last, at % STEP_TAGS, token)
        prompt = prompt_lengths(spec.seed, requests[index])
        self.tokens[start:end, row, 0] = np.where(is_blocked, IDLE_TOKEN, token)
        self._accepted[start:end, row] = ~is_blocked
        self._blocked[start:end, row] = is_blocked
        self._prompt_len[start:end, row] = prompt
        self._seq_len[start:end, row] = prompt + position + ~is_blocked

    def _fill_drafted(self, row: int, start: int, end: int, request: int, prompt_hash: int) -> None:
        """Fill steps start .. end - 1 with up to 1 + draft_tokens tokens a step."""
        spec = self.spec
        step = start
        while step < end:
            length = int(output_lengths(spec.seed, request, spec.mean_length))
            at = np.arange(step, min(end, step + length))
            made = accepted_tokens(spec.seed, row, at, spec.draft_tokens)
            made[at == spec.last_step] = 1
            upto = np.cumsum(made)
            steps = min(int(np.searchsorted(upto, length)) + 1, len(at))
            at, upto = at[:steps], np.minimum(upto[:steps], length)
            first = np.concatenate(([0], upto[:-1]))
            prompt = int(prompt_lengths(spec.seed, request))
            for draft in range(spec.draft_tokens + 1):
                position = first + draft
                is_last = (position == length - 1) | (at == spec.last_step)
                token = ordinary_tokens(spec.seed, request, position, at, prompt_hash)
                token = np.where(is_last, at % STEP_TAGS, token)
                self.tokens[at, row, draft] = np.where(position < upto, token, IDLE_TOKEN)
            self._accepted[at, row] = upto - first
            self._prompt_len[at, row] = prompt
            self._seq_len[at, row] = prompt + upto
            step, request, prompt_hash = step + steps, request + spec.sequences, 0
