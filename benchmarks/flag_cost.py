"""Measure get_stop and set_stop on a pinned flag (pageable on a CPU-only Paddle): ns a call, best of several passes.

usage: python benchmarks/flag_cost.py
"""

import time

from fdprof.ops import ops

PASSES, CALLS = 9, 20_000


def best_ns(call, *arguments):
    times = []
    for _ in range(PASSES):
        start = time.perf_counter_ns()
        for _ in range(CALLS):
            call(*arguments)
        times.append((time.perf_counter_ns() - start) / CALLS)
    return min(times)


def main():
    flag = ops.paddle_pinned_tensor([1], "bool")
    print(f"get_stop: {best_ns(ops.get_stop, flag):.0f} ns (bar: 500)")
    print(f"set_stop: {best_ns(ops.set_stop, flag, True):.0f} ns (bar: 500)")


if __name__ == "__main__":
    main()
