"""The decode step with FastDeploy's append-attention planning: two synchronisations that no mode can see or remove.

An op of the first layer copies `max_len_tensor` (36 B) to pageable memory and synchronises the stream, then
`decoder_num_blocks` (4 B) to pinned memory and synchronises again, before the layers can be launched.  It does so in
every mode; the outputs are those of stop_flag.
Source: PaddlePaddle/FastDeploy, `GetBlockShapeAndSplitKVBlock` of get_block_shape_and_split_kv_block.cu; it runs in
every eager step and is absent when the whole step is replayed as one CUDA graph.
"""

from functools import lru_cache

from fdprof.scenarios.protocol import Loop, Scenario

from fdprof.backends.protocol import tensor_spec
from fdprof.model import Group, Memory, Producer, TensorSpec
from fdprof.params import LoopParams


def _planning(name: str, elements: int, memory: Memory) -> Group:
    tensor = TensorSpec(name, (elements,), "int32")
    return Group(name, (tensor,), made_by=Producer.PREPARE, needed_in_step=True, op_memory=memory)


_MAX_LEN = _planning("max_len_tensor", 9, Memory.PAGEABLE)
_NUM_BLOCKS = _planning("decoder_num_blocks", 1, Memory.PINNED)


@lru_cache(maxsize=8)
def _outputs(sequences: int) -> Group:
    return Group("outputs", (tensor_spec("sampled_token_ids", sequences), tensor_spec("not_need_stop", sequences)))


class HiddenSync(Scenario):
    """stop_flag's transfers, and two copies inside an attention op that synchronise the stream in every mode."""

    source = "FastDeploy get_block_shape_and_split_kv_block.cu"
    has_prepare = True

    def groups(self, params: LoopParams) -> tuple[Group, ...]:
        return (_MAX_LEN, _NUM_BLOCKS, _outputs(params.sequences))

    def step(self, loop: Loop, k: int) -> None:
        params: LoopParams = loop.params
        outputs = _outputs(params.sequences)

        with loop.range("preprocess"):
            loop.prepare()
        with loop.range("forward"):
            for planning in (_MAX_LEN, _NUM_BLOCKS):
                loop.transfer(planning)
                loop.read(planning)
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


SCENARIO = HiddenSync()
