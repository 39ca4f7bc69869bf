"""Measure what a mode's transfers cost the device: steps queued behind a latch, with and without the transfers.

usage: python benchmarks/transfer_cost.py --backend paddle|sim -o RESULT.json

The host plays no part: everything is queued before the first kernel may start.  The period is that of the first
kernel's starts, the median over the queued steps of all rounds; the modes take turns.  Modes that wait in the transfer
itself (sync, sync-pinned) cannot be queued and are left out.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
from result_file import write

from fdprof import plugins
from fdprof.backends.protocol import LoopPlan
from fdprof.model import Producer
from fdprof.modes.protocol import to_host
from fdprof.params import LoopParams
from fdprof.session import open_backend

NONE = "no transfer"
MODES = (NONE, "async", "overlap-copy-stream", "mapped")
STEPS, KERNELS, KERNEL_NS = 12, 10, 20_000


def periods(backend, plan: LoopPlan, mode_name: str, has_prepare: bool) -> list[int]:
    """Return the ns from each queued step's first kernel to the next one's."""
    loop = backend.open_loop(plan)
    try:
        groups = [group for group in to_host(plan.groups) if group.op_memory is None]
        mode = None if mode_name == NONE else plugins.load("modes", mode_name)(loop, groups)
        loop.hold()
        for step in range(STEPS):
            for producer, launch in ((Producer.PREPARE, loop.prepare), (Producer.UPDATE, loop.update)):
                if producer is Producer.PREPARE and not has_prepare:
                    continue
                if producer is Producer.UPDATE:
                    loop.forward()
                if mode is not None:
                    mode.before(producer, step)
                launch()
                for group in groups:
                    if mode is not None and group.made_by is producer:
                        mode.transfer(group, step)
        loop.release()
        starts = loop.stamps()[:STEPS, 0, 0]
    finally:
        loop.close()
    return np.diff(starts[2:]).tolist()  # the first steps may start before the clock of the device is up


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    backend, _ = open_backend(options.backend, 30.0)
    rows = []
    for scenario_name in plugins.names("scenarios"):
        scenario = plugins.load("scenarios", scenario_name)
        changes = {"pinned_alloc": "once"} if scenario_name == "logprobs" else {}
        params: LoopParams = scenario.params_type(**changes)
        stream = scenario.stream(params, STEPS)
        groups = tuple(group for group in scenario.groups(params) if group.direction.value == "device to host")
        plan = LoopPlan(
            replace(stream, insert_every=0), groups, STEPS, KERNELS, np.full(STEPS, KERNEL_NS, dtype=np.int64)
        )
        found: dict[str, list[int]] = {mode: [] for mode in MODES}
        for _ in range(options.rounds):
            for mode in MODES:
                found[mode].extend(periods(backend, plan, mode, scenario.has_prepare))
        base = float(np.median(found[NONE]))
        for mode in MODES:
            median = float(np.median(found[mode]))
            rows.append({"scenario": scenario_name, "mode": mode, "period_ns": median, "cost_ns": median - base})
            rows[-1]["samples_ns"] = found[mode]
            print(
                f"{scenario_name:<13} {mode:<20} {median / 1000:8.2f} µs a step, {(median - base) / 1000:+6.2f}",
                flush=True,
            )
    write(options.output, "transfer_cost", options.backend, backend.environment(), rows=rows)


if __name__ == "__main__":
    main()
