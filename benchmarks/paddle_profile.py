"""Take a paddle.profiler trace of fdprof's own loop: stop_flag in one mode, each step marked decode_step.

usage: python benchmarks/paddle_profile.py MODE TRACE.json [--steps 40]
"""

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any

import paddle.profiler as profiler

import fdprof
from fdprof import plugins


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mode")
    parser.add_argument("trace", type=Path)
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    backend, why = fdprof.open_backend("paddle", 30.0)
    print(why)
    params = fdprof.LoopParams(device_us=500, schedule_us=120, save_output_us=80, kernels=4)
    session = fdprof.Session(backend, "stop_flag", params, fdprof.Extent(steps=options.steps, warmup=5))
    scenario = plugins.load("scenarios", "stop_flag")
    unmarked = type(scenario).step

    def step(self: Any, loop: Any, k: int) -> None:
        with profiler.RecordEvent("decode_step"):
            unmarked(self, loop, k)

    session.run(options.mode)  # warms Paddle and the ops up, untraced
    type(scenario).step = step  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as folder:
        tracer = profiler.Profiler(
            targets=[profiler.ProfilerTarget.CPU, profiler.ProfilerTarget.GPU],
            on_trace_ready=profiler.export_chrome_tracing(folder),
        )
        tracer.start()
        session.run(options.mode)
        tracer.stop()
        written = sorted(Path(folder).rglob("*.json"))
        shutil.copy(written[-1], options.trace)


if __name__ == "__main__":
    main()
