"""A decode loop of one's own: fdprof run docs/my_loop.py --mode overlap --embedding 4096

It sends a row's hidden state to the host beside the tokens, as a loop would that streams embeddings.

What else there is, each used by a scenario in scenarios/:

* `Group(..., needed_in_step=True)`: values the step itself needs, which no mode may defer (speculative.py);
  `made_by=Producer.PREPARE` for what is known before the forward pass, with `has_prepare = True` and loop.prepare().
* `Group(..., op_memory=Memory.PAGEABLE)`: a copy inside an op, synchronised at once in every mode (hidden_sync.py).
* `Group(..., per_step=("name",))`: pinned buffers made anew for each copy (logprobs.py).
* `Group(..., direction=Direction.TO_DEVICE)` and loop.send(): a request inserted while decoding (insert_tasks.py).
* `stream()`: rows that pause for a block, draft tokens, or are inserted (token_count.py, speculative.py,
  insert_tasks.py).
* `choice(default, help, words)`: an option that takes words (logprobs.py).

Dtypes are int64, int32, float32 and bool.  The decode tensors that fdprof knows are listed at tensor_spec in
fdprof/backends/protocol.py; a tensor of any other name is a payload.
"""

from dataclasses import dataclass

from fdprof.scenarios.protocol import Loop, Scenario

from fdprof.backends.protocol import tensor_spec
from fdprof.model import Group, TensorSpec
from fdprof.params import LoopParams, param


@dataclass(frozen=True, slots=True, kw_only=True)
class MyParams(LoopParams):
    """Each field is an option of `fdprof run`, with its default, help and bounds."""

    embedding: int = param(1024, "Elements of the hidden state that is sent.", low=1, high=1_000_000)


class MyLoop(Scenario):
    """Tokens and stop flag behind one fence, the hidden state behind another."""

    source = "docs/my_loop.py"
    params_type = MyParams

    def groups(self, params: MyParams) -> tuple[Group, ...]:
        """A group has one event and one read.  Tensors with names of their own are filled and checked by fdprof."""
        outputs = (tensor_spec("sampled_token_ids", params.sequences), tensor_spec("not_need_stop", params.sequences))
        return (
            Group("outputs", outputs),
            Group("hidden", (TensorSpec("hidden_state", (1, params.embedding), "float32"),)),
        )

    def step(self, loop: Loop, k: int) -> None:
        """Do step k.  Every group must be read once a step; the mode says how old its values are."""
        params: MyParams = loop.params
        outputs, hidden = self.groups(params)

        with loop.range("forward"):
            loop.forward()
        with loop.range("sample"):
            loop.sample_and_update()
        with loop.range("transfer"):
            loop.transfer(outputs)
            loop.transfer(hidden)
        with loop.range("host", "schedule"):
            loop.host_work(params.schedule_ns)
        values, state = loop.read(outputs), loop.read(hidden)
        if values is None or state is None:  # the first step of a mode that reads a step later
            return
        with loop.range("host", "save_output"):
            loop.save(values)
            loop.host_work(params.save_output_ns)
        if not values["not_need_stop"]:
            loop.stop()


SCENARIO = MyLoop()
