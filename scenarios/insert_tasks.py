"""The decode step of stop_flag with requests inserted while it runs: many small copies to the device.

Every `--insert-every` steps one row gets a new request, whatever it was doing: its prompt (8 B a token), its block
table (4 B a block), where it goes, and some two dozen sampling parameters of 4 B each.  FastDeploy writes each of them
by slice assignment from NumPy: a blocking copy, one after the other, before the step's kernels.  The device mixes
what it was sent into the request's tokens, so that a copy that arrived wrong shows.
Source: PaddlePaddle/FastDeploy `insert_tasks_v1` of gpu_model_runner.py, and the synchronisations that #7665 removed.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fdprof.scenarios.protocol import Loop, Scenario

from fdprof.backends.protocol import tensor_spec
from fdprof.model import Direction, Group, TensorSpec
from fdprof.params import LoopParams, param
from fdprof.tokens import INSERT_TASK, KV_BLOCK_TOKENS, StreamSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertTasksParams(LoopParams):
    """How often a request is inserted, and what is sent for it."""

    insert_every: int = param(8, "Steps from one inserted request to the next.", 1, 1_000_000)
    prompt_tokens: int = param(512, "Prompt of an inserted request, tokens.", 1, 131_072)
    sampling_params: int = param(25, "Sampling parameters sent with it, one copy of 4 B each.", 0, 32)


@lru_cache(maxsize=8)
def _groups(sequences: int, prompt_tokens: int, sampling_params: int) -> tuple[Group, Group]:
    blocks = -(-prompt_tokens // KV_BLOCK_TOKENS)
    prefill = (
        TensorSpec(INSERT_TASK, (4,), "int64"),
        TensorSpec("input_ids", (1, prompt_tokens), "int64"),
        TensorSpec("block_tables", (1, blocks), "int32"),
        *(TensorSpec(f"sampling_param_{number}", (1, 1), "float32") for number in range(sampling_params)),
    )
    outputs = (tensor_spec("sampled_token_ids", sequences), tensor_spec("not_need_stop", sequences))
    return Group("prefill", prefill, direction=Direction.TO_DEVICE), Group("outputs", outputs)


class InsertTasks(Scenario):
    """stop_flag's transfers, and now and then a request's prefill row, written to the device while decoding."""

    source = "FastDeploy insert_tasks_v1, #7665"
    params_type = InsertTasksParams
    has_prepare = True

    def groups(self, params: Any) -> tuple[Group, ...]:
        return _groups(params.sequences, params.prompt_tokens, params.sampling_params)

    def stream(self, params: Any, last_step: int) -> StreamSpec:
        return StreamSpec(
            seed=params.seed,
            sequences=params.sequences,
            mean_length=params.mean_length,
            last_step=last_step,
            insert_every=params.insert_every,
        )

    def step(self, loop: Loop, k: int) -> None:
        params: InsertTasksParams = loop.params
        prefill, outputs = _groups(params.sequences, params.prompt_tokens, params.sampling_params)

        if k and k % params.insert_every == 0:
            with loop.range("insert_tasks"):
                loop.send(prefill)
        with loop.range("preprocess"):
            loop.prepare()
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


SCENARIO = InsertTasks()
