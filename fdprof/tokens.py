"""The token stream that every backend must produce, as one pure function of (seed, row, step).

The decode kernels (ops/csrc) and the simulator make the same stream step by step from their own state; this module
computes it in closed form, so that an error in either shows.  It knows no backend and no mode.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

IDLE_TOKEN = -1
"""What a row without a request yields, as in FastDeploy's output message."""

STEP_TAGS = 8
"""The low three bits of every token are step % 8: a value up to seven steps stale can never look right."""

TOKEN_VALUES = 16_383
"""Ordinary tokens lie in [8, 8 * (TOKEN_VALUES + 1)); 0..7 are the end-of-sequence ids, one for each step tag."""

KV_BLOCK_TOKENS = 64
"""Tokens a KV-cache block holds: a row that has filled one needs another and raises `is_block_step`."""

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
    draws = mix64(mix64(seed) ^ (ids * _U64(2) + _U64(1)))
    return (_U64(1) + draws % _U64(2 * mean_length - 1)).astype(np.int64)


def ordinary_tokens(
    seed: int, requests: npt.ArrayLike, positions: npt.ArrayLike, steps: npt.ArrayLike
) -> npt.NDArray[np.int64]:
    """Return the token of each (request, position in its output, step) that is not the last of its request."""
    ids = np.asarray(requests, dtype=_U64)
    with np.errstate(over="ignore"):
        draws = mix64(mix64(mix64(seed) ^ (ids * _U64(2))) + np.asarray(positions, dtype=_U64))
    values = (draws % _U64(TOKEN_VALUES) + _U64(1)).astype(np.int64)
    return values * STEP_TAGS + np.asarray(steps, dtype=np.int64) % STEP_TAGS


@dataclass(frozen=True, slots=True)
class TokenStream:
    """What the device must have produced at each step.

    `tokens`: int64 [steps, sequences]; `not_need_stop`: bool [steps], True while any row still has a request.
    """

    tokens: npt.NDArray[np.int64]
    not_need_stop: npt.NDArray[np.bool_]


def reference_stream(seed: int, sequences: int, steps: int, last_step: int, mean_length: int) -> TokenStream:
    """Return the stream of `sequences` rows over `steps` steps.

    Row b starts with request b.  When a request's output ends, the row takes request id + sequences at the next step.
    At `last_step` the token budget is used up: every row's request ends there, and later steps yield IDLE_TOKEN.
    """
    tokens = np.full((steps, sequences), IDLE_TOKEN, dtype=np.int64)
    live = min(steps, last_step + 1)
    for row in range(sequences):
        # Enough requests to cover `live` steps even if each yields one token.
        requests = row + sequences * np.arange(live, dtype=np.int64)
        lengths = output_lengths(seed, requests, mean_length)
        ends = np.cumsum(lengths)
        index = np.searchsorted(ends, np.arange(live), side="right")
        at = np.arange(live)
        position = at - (ends[index] - lengths[index])
        is_last = (position == lengths[index] - 1) | (at == last_step)
        ordinary = ordinary_tokens(seed, requests[index], position, at)
        tokens[:live, row] = np.where(is_last, at % STEP_TAGS, ordinary)
    return TokenStream(tokens=tokens, not_need_stop=np.arange(steps) < last_step)
