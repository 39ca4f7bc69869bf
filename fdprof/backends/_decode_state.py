"""The decode state of the simulated device, advanced one kernel at a time as the kernels of ops/csrc do.

It keeps per row only what a device would keep: request, position, length.  fdprof.tokens.Reference has the same values
in closed form, so that an error in either shows.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from fdprof.backends.protocol import MADE_IN_PREPARE, MADE_IN_UPDATE, LoopPlan, tensor_spec
from fdprof.model import Direction, Producer, TensorSpec
from fdprof.tokens import (
    IDLE_TOKEN,
    INSERT_TASK,
    STEP_TAGS,
    TOKEN_VALUES,
    accepted_tokens,
    inbox_hash,
    mix64,
    output_lengths,
    payload,
    prompt_lengths,
)

_U64 = np.uint64
_NO_ROW = -1


class DecodeState:
    """Rows of requests, and the device tensors by name: what the plan's groups move, the tokens and the stop flag."""

    def __init__(self, plan: LoopPlan) -> None:
        spec = self._spec = plan.stream
        rows = spec.sequences
        self.step = 0  # counted by the update kernel
        self._drafts = np.arange(spec.draft_tokens + 1, dtype=np.int64)
        # Drafted rows are not paused: no engine modelled here has both.
        self._kv_block_tokens = 0 if spec.draft_tokens else spec.kv_block_tokens
        self._make_tensors(plan)

        self._request = np.arange(rows, dtype=np.int64)
        self._position = np.zeros(rows, dtype=np.int64)
        self._last_position = np.zeros(rows, dtype=np.int64)
        self._prompt = np.zeros(rows, dtype=np.int64)
        self._key = np.zeros(rows, dtype=np.uint64)  # what the tokens of the row's request are drawn from
        self._is_live = np.ones(rows, dtype=np.bool_)
        self._is_blocked = np.zeros(rows, dtype=np.bool_)
        self._begin(np.arange(rows), prompt_hash=0)

    def _make_tensors(self, plan: LoopPlan) -> None:
        spec = plan.stream
        self.tensors: dict[str, npt.NDArray[Any]] = {
            "sampled_token_ids": np.full((spec.sequences, 1), IDLE_TOKEN, dtype=np.int64),
            "not_need_stop": np.ones(1, dtype=np.bool_),
        }
        self._inbox: list[tuple[TensorSpec, npt.NDArray[Any]]] = []
        self._payloads: dict[Producer, list[TensorSpec]] = {producer: [] for producer in Producer}
        known = MADE_IN_PREPARE | MADE_IN_UPDATE
        for group in plan.groups:
            for tensor in group.tensors:
                if group.direction is Direction.TO_DEVICE:
                    array = self.tensors[tensor.name] = np.zeros(tensor.shape, dtype=tensor.dtype)
                    if tensor.name == INSERT_TASK:
                        array[1] = _NO_ROW  # nothing was sent yet
                    else:
                        self._inbox.append((tensor, array))
                    continue
                self.tensors.setdefault(tensor.name, np.zeros(tensor.shape, dtype=tensor.dtype))
                if tensor.name not in known:
                    self._payloads[group.made_by].append(tensor)
                else:
                    expected = tensor_spec(tensor.name, spec.sequences, spec.draft_tokens)
                    assert tensor == expected, f"{tensor} is not the device's {expected}"

    def prepare(self) -> None:
        """Take in an inserted request and make the PREPARE tensors."""
        spec, tensors = self._spec, self.tensors
        if INSERT_TASK in tensors:
            step, row, request, _ = tensors[INSERT_TASK].tolist()
            if step == self.step and step <= spec.last_step and 0 <= row < spec.sequences:
                self._request[row] = request
                self._is_live[row] = True
                self._begin(np.array([row]), inbox_hash(self._inbox))
        makes = self._is_live & ~self._is_blocked
        if "seq_lens_this_time" in tensors:
            tensors["seq_lens_this_time"][:, 0] = makes
        if "is_block_step" in tensors:
            tensors["is_block_step"][:] = self._is_blocked
        if "real_output_token_num" in tensors:
            tensors["real_output_token_num"][0] = np.count_nonzero(makes) * len(self._drafts)
        self._make_payloads(Producer.PREPARE)

    def advance(self, launch_tokens: int = -1) -> None:
        """Make every row's next tokens and the UPDATE tensors, and count the step.

        Launched for fewer tokens than there are rows that make one, it leaves as many rows at the end as they were.
        """
        step = self.step
        makes = self._is_live & ~self._is_blocked
        rows = len(makes)
        if launch_tokens >= 0:
            rows -= max(0, int(np.count_nonzero(makes)) - launch_tokens)
        self._advance_rows(slice(0, max(rows, 0)), makes, step)
        self.tensors["not_need_stop"][0] = self._is_live.any()
        self._make_payloads(Producer.UPDATE)
        self.step = step + 1

    def _advance_rows(self, on: slice, all_make: npt.NDArray[np.bool_], step: int) -> None:
        tensors, tag = self.tensors, step % STEP_TAGS
        makes, position, last_position = all_make[on], self._position[on], self._last_position[on]
        is_budget_used = step >= self._spec.last_step
        made = self._tokens_made(makes, position, last_position, step, is_budget_used)

        at = position[:, None] + self._drafts
        draws = mix64(self._key[on, None] + at.view(np.uint64))
        tokens = (draws % _U64(TOKEN_VALUES)).view(np.int64)
        tokens += 1
        tokens *= STEP_TAGS
        tokens += tag
        tokens[at == last_position[:, None]] = tag
        if is_budget_used:
            tokens[:] = tag
        tokens[self._drafts >= made[:, None]] = IDLE_TOKEN

        tensors["sampled_token_ids"][on] = tokens[:, :1]
        if "accept_tokens" in tensors:
            tensors["accept_tokens"][on] = tokens
        if "accept_num" in tensors:
            tensors["accept_num"][on] = made
        position += made
        if "seq_lens_decoder" in tensors:
            tensors["seq_lens_decoder"][on, 0] = self._prompt[on] + position
        if "prompt_lens" in tensors:
            tensors["prompt_lens"][on, 0] = self._prompt[on]
        if self._kv_block_tokens:
            # A row that has just paused stands where it stood, and does not pause again.
            self._is_blocked[on] = makes & (position % self._kv_block_tokens == 0)
        if is_budget_used:
            self._end_all()
            return
        is_done = position > last_position
        if is_done.any():
            rows = np.flatnonzero(is_done)
            self._request[rows] += self._spec.sequences
            self._begin(rows, prompt_hash=0)

    def _tokens_made(
        self,
        makes: npt.NDArray[np.bool_],
        position: npt.NDArray[np.int64],
        last_position: npt.NDArray[np.int64],
        step: int,
        is_budget_used: bool,
    ) -> npt.NDArray[np.int64]:
        """Return how many tokens each row makes now: one, or as many of its drafts as are accepted."""
        spec = self._spec
        if not spec.draft_tokens or is_budget_used:
            return makes.astype(np.int64)
        accepted = accepted_tokens(spec.seed, np.arange(len(makes)), step, spec.draft_tokens)
        return np.where(makes, np.minimum(accepted, last_position + 1 - position), 0)

    def _end_all(self) -> None:
        """Leave no row a request, not even one that was not computed in this step."""
        self._is_live[:] = False
        self._is_blocked[:] = False
        for numbers in (self._position, self._last_position, self._prompt):
            numbers[:] = 0

    def _begin(self, rows: npt.NDArray[np.int64], prompt_hash: int) -> None:
        """Start the rows' requests at their first token."""
        spec, requests = self._spec, self._request[rows]
        self._position[rows] = 0
        self._is_blocked[rows] = False
        self._last_position[rows] = output_lengths(spec.seed, requests, spec.mean_length) - 1
        stream_key = mix64(_U64(spec.seed) ^ _U64(prompt_hash))
        self._key[rows] = mix64(stream_key ^ (requests.astype(np.uint64) * _U64(2)))
        if "prompt_lens" in self.tensors or "seq_lens_decoder" in self.tensors:
            self._prompt[rows] = prompt_lengths(spec.seed, requests)

    def _make_payloads(self, producer: Producer) -> None:
        for tensor in self._payloads[producer]:
            self.tensors[tensor.name][...] = payload(self._spec.seed, tensor, self.step).reshape(tensor.shape)
