"""The decode step with multi-token prediction (MTP), FastDeploy #7001: some values the host needs at once.

Each row makes 1 to D + 1 tokens a step.  `real_output_token_num` (4 B) is known before the forward pass and needed
before sampling, in the same step, so no mode may defer it.  After the update `accept_tokens` (8 B times D + 1 a
sequence), `accept_num` (4 B), `seq_lens_decoder` (4 B) and `prompt_lens` (8 B) follow behind one fence.  The loop ends
when there are no tokens to sample.
Source: PaddlePaddle/FastDeploy pull request #7001, `_postprocess` of gpu_model_runner.py; the draft model's own
launches count as part of the forward pass.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fdprof.scenarios.protocol import Loop, Scenario

from fdprof.backends.protocol import tensor_spec
from fdprof.model import Group, Producer
from fdprof.params import LoopParams, param
from fdprof.tokens import StreamSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculativeParams(LoopParams):
    """How many tokens are drafted."""

    draft_tokens: int = param(3, "Tokens drafted for each sequence and step (D); 1 to D + 1 are accepted.", 1, 15)


@lru_cache(maxsize=8)
def _groups(sequences: int, draft_tokens: int) -> tuple[Group, Group]:
    def tensor(name: str) -> Any:
        return tensor_spec(name, sequences, draft_tokens)

    return (
        Group("output_count", (tensor("real_output_token_num"),), made_by=Producer.PREPARE, needed_in_step=True),
        Group(
            "outputs",
            (tensor("accept_tokens"), tensor("accept_num"), tensor("seq_lens_decoder"), tensor("prompt_lens")),
        ),
    )


class Speculative(Scenario):
    """The accepted tokens and lengths of MTP, and a count that is needed in the same step."""

    source = "FastDeploy #7001"
    params_type = SpeculativeParams
    has_prepare = True

    def groups(self, params: Any) -> tuple[Group, ...]:
        return _groups(params.sequences, params.draft_tokens)

    def stream(self, params: Any, last_step: int) -> StreamSpec:
        return StreamSpec(
            seed=params.seed,
            sequences=params.sequences,
            mean_length=params.mean_length,
            last_step=last_step,
            draft_tokens=params.draft_tokens,
        )

    def step(self, loop: Loop, k: int) -> None:
        params: SpeculativeParams = loop.params
        output_count, outputs = _groups(params.sequences, params.draft_tokens)

        with loop.range("preprocess"):
            loop.prepare()
            loop.transfer(output_count)
        with loop.range("forward"):
            loop.forward()
        count = loop.read(output_count)
        if count is not None and not count["real_output_token_num"].any():
            loop.flush(outputs)
            loop.stop()
            return
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


SCENARIO = Speculative()
