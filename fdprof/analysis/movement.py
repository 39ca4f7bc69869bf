"""What a mode moves in a step of a scenario: transfers, bytes, waits and host memory, counted from a journal."""

from collections.abc import Sequence
from dataclasses import dataclass

from fdprof.model import Act, Block, Group, Memory

_TO_HOST = (Act.COPY, Act.FETCH, Act.PUBLISH)
_TO_DEVICE = (Act.UPLOAD, Act.STORE)
_PAGEABLE = list(Memory).index(Memory.PAGEABLE)
_SYNCS = (Act.WAIT, Act.SYNCHRONIZE, Act.POLL, Act.FETCH, Act.STORE)


@dataclass(frozen=True, slots=True)
class Movement:
    """Means over the counted steps of an audited block, and the most host memory held at once."""

    transfers: float
    to_host_bytes: float
    to_device_bytes: float
    syncs: float  # calls in which the host waits for the device
    host_memory_bytes: int


def movement_of(block: Block, groups: Sequence[Group]) -> Movement:
    """Return what was moved, by the journal of a block."""
    journal, names = block.log.journal, block.log.tensor_names
    sizes = {tensor.name: tensor.size_bytes for group in groups for tensor in group.tensors}
    acts = list(Act)
    counted = range(block.warmup, min(block.warmup + block.steps, len(block.log.step_starts_ns)))
    steps = max(len(counted), 1)
    transfers = to_host = to_device = syncs = 0
    held = peak = 0
    pageable: set[int] = set()
    columns = [journal[name].tolist() for name in ("act", "step", "tensor", "buffer", "detail")]
    for number, step, tensor, buffer, detail in zip(*columns, strict=True):
        act = acts[number]
        if act is Act.ALLOCATE and detail == _PAGEABLE:
            pageable.add(buffer)
        size = sizes[names[tensor]] if tensor >= 0 else 0
        # What a blocking copy returns is new memory, and the old is dropped.
        held += size if act is Act.ALLOCATE else -size if act is Act.RELEASE else 0
        peak = max(peak, held)
        if step not in counted:
            continue
        transfers += act in (*_TO_HOST, *_TO_DEVICE)
        to_host += size if act in _TO_HOST else 0
        to_device += size if act in _TO_DEVICE else 0
        syncs += act in _SYNCS or (act is Act.COPY and buffer in pageable)
    fetched = {names[tensor] for tensor in journal["tensor"][journal["act"] == acts.index(Act.FETCH)]}
    return Movement(
        transfers / steps,
        to_host / steps,
        to_device / steps,
        syncs / steps,
        peak + sum(sizes[name] for name in fetched),
    )
