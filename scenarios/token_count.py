"""The decode step of FastDeploy #6356: no stop flag; the loop ends when there is nothing left to launch for.

Before the forward pass `seq_lens_this_time` (4 B a sequence) and `is_block_step` (1 B a sequence) go to the host, and
after it the sampled tokens.  A mode that reads in the same step launches for the rows that are active; one that reads a
step later predicts: the rows that were active, and those that waited for a KV-cache block and get it now.
Source: PaddlePaddle/FastDeploy pull request #6356 (which removed not_need_stop) and #6259 (the prediction),
`_prepare_inputs` and `_predict_next_launch_token_num` of gpu_model_runner.py.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from fdprof.scenarios.protocol import Loop, Scenario

from fdprof.backends.protocol import tensor_spec
from fdprof.model import Group, Producer
from fdprof.modes.protocol import Values
from fdprof.params import LoopParams, param
from fdprof.tokens import StreamSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCountParams(LoopParams):
    """Rows that pause for a KV-cache block."""

    kv_block_tokens: int = param(64, "Tokens of a KV-cache block: a row that filled one pauses a step.", 1, 1_000_000)


@lru_cache(maxsize=8)
def _groups(sequences: int) -> tuple[Group, Group]:
    counts = (tensor_spec("seq_lens_this_time", sequences), tensor_spec("is_block_step", sequences))
    return (
        Group("counts", counts, made_by=Producer.PREPARE),
        Group("outputs", (tensor_spec("sampled_token_ids", sequences),)),
    )


class TokenCount(Scenario):
    """Token counts before the forward pass, sampled tokens after it; the launch count is known or predicted."""

    source = "FastDeploy #6356, #6259"
    params_type = TokenCountParams
    has_prepare = True

    def groups(self, params: Any) -> tuple[Group, ...]:
        return _groups(params.sequences)

    def stream(self, params: Any, last_step: int) -> StreamSpec:
        return StreamSpec(
            seed=params.seed,
            sequences=params.sequences,
            mean_length=params.mean_length,
            last_step=last_step,
            kv_block_tokens=params.kv_block_tokens,
        )

    def step(self, loop: Loop, k: int) -> None:
        params: TokenCountParams = loop.params
        counts, outputs = _groups(params.sequences)

        with loop.range("preprocess"):
            loop.prepare()
            loop.transfer(counts)
        launch_tokens, is_idle = _launch_tokens(loop.read(counts), k)
        if is_idle:
            loop.flush(outputs)
            loop.stop()
            return
        with loop.range("forward"):
            loop.forward()
        with loop.range("sample"):
            loop.sample_and_update(launch_tokens)
        with loop.range("transfer"):
            loop.transfer(outputs)
        with loop.range("host", "schedule"):
            loop.host_work(params.schedule_ns)
        values = loop.read(outputs)
        if values is None:
            return
        with loop.range("host", "save_output"):
            loop.save(values)
            loop.host_work(params.save_output_ns)


def _launch_tokens(counts: Values | None, k: int) -> tuple[int, bool]:
    """Return how many rows to launch step k for (-1: all, where nothing is known yet), and whether none is left."""
    if counts is None:
        return -1, False
    active = int(np.count_nonzero(counts["seq_lens_this_time"] > 0))
    waiting = int(np.count_nonzero(counts["is_block_step"]))
    # Rows that waited at step k - 1 have their block at step k, but those that wait at step k do not.
    launch_tokens = active if counts.step == k else active + waiting
    return launch_tokens, active + waiting == 0


SCENARIO = TokenCount()
