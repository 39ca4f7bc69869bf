"""Measure what the recorder costs: a range, a recorded call, and a whole step against the same step unrecorded.

usage: python benchmarks/recorder_cost.py        needs no GPU; best of several passes, no NVTX tool attached
"""

import gc
import time

from fdprof.scenarios.stop_flag import SCENARIO

from fdprof import markers
from fdprof.loop import RecordedLoop
from fdprof.modes.async_ import Async
from fdprof.params import LoopParams
from fdprof.recorder import RecordedDevice, Recorder

ROUNDS, STEPS = 15, 2000


class NullDevice:
    """A device whose calls cost nothing."""

    def forward(self): ...
    def update(self, launch_tokens=-1, stream=None): ...
    def copy(self, spec, into, stream=None): ...
    def record(self, event, stream=None): ...
    def wait(self, event): ...
    def fetch(self, spec): ...

    def read(self, buffer):
        return True

    def host_buffer(self, spec, memory):
        return type("Buffer", (), {"spec": spec, "memory": memory})()

    def event(self):
        return object()


class NullRange:
    def __enter__(self): ...
    def __exit__(self, *details): ...


class NullBackend:
    def host_work(self, duration_ns): ...


class BareLoop:
    """The same scenario and mode without a recorder."""

    def __init__(self, params, device, mode):
        self.params, self._mode, self._range = params, mode, NullRange()
        self.forward, self.sample_and_update = device.forward, device.update

    def range(self, name, detail=""):
        return self._range

    def transfer(self, group):
        self._mode.transfer(group, 0)

    def read(self, group):
        return self._mode.read(group, 0)

    def host_work(self, duration_ns): ...
    def save(self, values): ...
    def stop(self): ...


def best_ns(action, count):
    """Return the fastest pass, per item: what the code costs without the machine's other work."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter_ns()
        action()
        times.append((time.perf_counter_ns() - start) / count)
    return min(times)


def main():
    gc.disable()  # as in a block of a session
    params = LoopParams()
    groups = SCENARIO.groups(params)
    clock = time.perf_counter_ns
    recorder = Recorder(clock, time.thread_time_ns)
    named = recorder.range("forward")

    def ranges():
        recorder.ranges.clear()
        for _ in range(STEPS):
            with named:
                pass

    empty = NullRange()

    def no_ranges():
        for _ in range(STEPS):
            with empty:
                pass

    def recorded():
        own = Recorder(clock, time.thread_time_ns)
        device = RecordedDevice(NullDevice(), own)
        loop = RecordedLoop(params, NullBackend(), device, Async(device, groups), groups, own, lambda *_: [])
        for k in range(STEPS):
            loop.step = k
            own.begin_step(k)
            SCENARIO.step(loop, k)
            own.end_step()

    def bare():
        device = NullDevice()
        loop = BareLoop(params, device, Async(device, groups))
        for k in range(STEPS):
            SCENARIO.step(loop, k)

    range_ns = best_ns(ranges, STEPS) - best_ns(no_ranges, STEPS)
    step_ns = best_ns(recorded, STEPS) - best_ns(bare, STEPS)
    clock_ns = best_ns(lambda: [clock() for _ in range(STEPS)], STEPS)
    print(f"a read of the clock: {clock_ns:.0f} ns")
    print(f"something listens to the ranges: {markers.listens()}")
    print(f"a range: {range_ns:.0f} ns (bar: 1,000)")
    print(f"a step (7 ranges, 8 calls): {step_ns:.0f} ns, {step_ns / 2000:.2f} % of 200 µs (bar: 2)")


if __name__ == "__main__":
    main()
