"""The decode step of FastDeploy #6176: the stop flag and the sampled tokens go to the host behind one fence.

Every step moves `not_need_stop` (1 B) and the sampled tokens (8 B a sequence) to the host.  The next step's input ids
stay on the device.  The loop ends when the host sees not_need_stop turn False.
Source: PaddlePaddle/FastDeploy pull request #6176, `_postprocess` and `_save_model_output` of gpu_model_runner.py.
"""

from functools import lru_cache

from fdprof.scenarios.protocol import Loop, Scenario

from fdprof.backends.protocol import tensor_spec
from fdprof.model import Group
from fdprof.params import LoopParams


@lru_cache(maxsize=8)
def _outputs(sequences: int) -> Group:
    return Group("outputs", (tensor_spec("sampled_token_ids", sequences), tensor_spec("not_need_stop", sequences)))


class StopFlag(Scenario):
    """not_need_stop and the sampled tokens, one group, read in save_output."""

    source = "FastDeploy #6176"

    def groups(self, params: LoopParams) -> tuple[Group, ...]:
        return (_outputs(params.sequences),)

    def step(self, loop: Loop, k: int) -> None:
        params: LoopParams = loop.params
        outputs = _outputs(params.sequences)

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


SCENARIO = StopFlag()
