"""The decode step with log-probabilities, FastDeploy #6362: three more tensors a step, behind the same fence.

For each sequence the ids and log-probabilities of the K likeliest tokens and of the sampled one (8 and 4 B times
K + 1) and the sampled token's rank (8 B) go to the host beside stop_flag's two tensors.  FastDeploy makes the three
pinned buffers anew in every step; `--pinned-alloc once` makes them before the loop.
Source: PaddlePaddle/FastDeploy pull request #6362, `gather_logprobs` of logprobs.py; they have no event of their own,
but rely on the one recorded later on the same stream.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fdprof.scenarios.protocol import Loop, Scenario

from fdprof.backends.protocol import tensor_spec
from fdprof.model import Group, TensorSpec
from fdprof.params import LoopParams, choice, param


@dataclass(frozen=True, slots=True, kw_only=True)
class LogprobsParams(LoopParams):
    """How many log-probabilities, and when their pinned buffers are made."""

    top_logprobs: int = param(20, "Likeliest tokens reported for each sequence, beside the sampled one.", 1, 1000)
    pinned_alloc: str = choice("per-step", "When the pinned buffers of the three are made.", ("per-step", "once"))


@lru_cache(maxsize=8)
def _outputs(sequences: int, top_logprobs: int, pinned_alloc: str) -> Group:
    logprobs = (
        TensorSpec("logprob_token_ids", (sequences, top_logprobs + 1), "int64"),
        TensorSpec("logprobs", (sequences, top_logprobs + 1), "float32"),
        TensorSpec("selected_token_ranks", (sequences,), "int64"),
    )
    tensors = (*logprobs, tensor_spec("sampled_token_ids", sequences), tensor_spec("not_need_stop", sequences))
    per_step = tuple(tensor.name for tensor in logprobs) if pinned_alloc == "per-step" else ()
    return Group("outputs", tensors, per_step=per_step)


class Logprobs(Scenario):
    """stop_flag's transfers and the top log-probabilities, ids and ranks, in one group."""

    source = "FastDeploy #6362"
    params_type = LogprobsParams

    def groups(self, params: Any) -> tuple[Group, ...]:
        return (_outputs(params.sequences, params.top_logprobs, params.pinned_alloc),)

    def step(self, loop: Loop, k: int) -> None:
        params: LogprobsParams = loop.params
        outputs = _outputs(params.sequences, params.top_logprobs, params.pinned_alloc)

        with loop.range("forward"):
            loop.forward()
        with loop.range("sample"):
            loop.sample_and_update()
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
        if not values["not_need_stop"]:
            loop.stop()


SCENARIO = Logprobs()
