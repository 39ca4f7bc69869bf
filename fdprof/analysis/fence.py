"""What the waits of a run cost, and how soon they let the host know."""

from dataclasses import dataclass

import numpy as np

from fdprof.analysis.intervals import Ns
from fdprof.analysis.stats import summarize
from fdprof.model import Block, Producer, Run, Summary


@dataclass(frozen=True, slots=True)
class FenceResult:
    """The waits of counted steps, together.  None: there were none, or the device cannot tell.

    `learn`: from the end of the kernel that made the values to the return of the wait for them, of the waits that were
    entered before that end: copy, event and wake-up, or for mapped memory the publication.
    """

    per_step: float
    wait_ns: float | None  # a step
    cpu_share: float | None  # CPU time of the waiting thread over wall time: near 1 for a wait that burns a core
    learn: Summary

    @property
    def cpu_ns(self) -> float | None:
        """CPU time of the waits of a step, by the share of those that were sampled."""
        return None if self.cpu_share is None or self.wait_ns is None else self.cpu_share * self.wait_ns


def _counted_waits(block: Block) -> dict[str, Ns]:
    waits = block.log.waits
    counted = (waits["step"] >= block.warmup) & (waits["step"] < block.warmup + block.steps)
    return {name: column[counted].astype(np.int64) for name, column in waits.columns.items()}


def group_wait_ns(run: Run, number: int) -> float | None:
    """Return the time of all waits for a group's values, None where none was for it."""
    total, found = 0.0, False
    for block in run.blocks:
        waits = _counted_waits(block)
        chosen = waits["group"] == number
        found = found or bool(chosen.any())
        total += float((waits["end_ns"] - waits["start_ns"])[chosen].sum())
    return total if found else None


def fence_of(run: Run) -> FenceResult:
    """Return what the waits of a run's counted steps come to."""
    steps = max(run.counted_steps, 1)
    all_waits = [_counted_waits(block) for block in run.blocks]
    count = sum(len(waits["start_ns"]) for waits in all_waits)
    learned = [_learned(run, block, waits) for block, waits in zip(run.blocks, all_waits, strict=True)]
    learn_ns = np.concatenate([ns for ns, _ in learned])
    learn_steps = np.concatenate([at for _, at in learned]).astype(np.int32)
    if not count:
        return FenceResult(0.0, None, None, summarize(None, learn_steps))
    wait_ns = sum(float((waits["end_ns"] - waits["start_ns"]).sum()) for waits in all_waits)
    return FenceResult(count / steps, wait_ns / steps, _cpu_share(all_waits), summarize(learn_ns, learn_steps))


def _cpu_share(all_waits: list[dict[str, Ns]]) -> float | None:
    """Return CPU time over wall time of the waits whose CPU time was sampled.

    The thread's clock is read around the wall's: of a wait that burns its core it gives a little more than all.
    """
    cpu_ns = wall_ns = 0.0
    for waits in all_waits:
        sampled = waits["cpu_ns"] >= 0
        wall = (waits["end_ns"] - waits["start_ns"])[sampled]
        cpu_ns += float(np.minimum(waits["cpu_ns"][sampled], wall).sum())
        wall_ns += float(wall.sum())
    return cpu_ns / wall_ns if wall_ns else None


def _learned(run: Run, block: Block, waits: dict[str, Ns]) -> tuple[Ns, Ns]:
    """Return how long after its kernel each waited-for value was known, and at which step that was."""
    kernels = block.log.kernels
    forward: int = run.params["kernels"]
    steps = len(block.log.step_starts_ns)
    ends = {producer: np.zeros(steps, dtype=np.int64) for producer in Producer}
    for producer, number in ((Producer.UPDATE, forward), (Producer.PREPARE, forward + 1)):
        chosen = kernels["kernel"] == number
        ends[producer][kernels["step"][chosen]] = kernels["end_ns"][chosen]
    chosen = waits["group"] >= 0
    value_step, group = waits["value_step"][chosen], waits["group"][chosen]
    is_update = np.array([run.groups[number].made_by is Producer.UPDATE for number in group], dtype=bool)
    made = np.where(is_update, ends[Producer.UPDATE][value_step], ends[Producer.PREPARE][value_step])
    # A wait that was entered later says when the host came, not how fast it can know.
    waited = (made > 0) & (waits["start_ns"][chosen] < made)
    return (waits["end_ns"][chosen] - made)[waited], waits["step"][chosen][waited]
