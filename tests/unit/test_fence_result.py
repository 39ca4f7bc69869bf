# ruff: noqa: SIM300 - the expected value stands first
"""analysis.results.FenceResult and the waits of each group's transfers, on blocks made by hand.

A step has two forward kernels (0 and 1), an update (2) and a prepare (3).  Every block here has one warm-up step, two
counted steps (1 and 2) and an overrun step.
"""

import math

import numpy as np
import pytest

from fdprof.analysis.results import result_of
from fdprof.model import (
    CALLS,
    JOURNAL,
    KERNELS,
    RANGES,
    READS,
    WAITS,
    BlockLog,
    Direction,
    Group,
    Producer,
    Table,
    TensorSpec,
)

OUTPUTS, COUNTS, INBOX = 0, 1, 2
GROUPS = (
    Group("outputs", (TensorSpec("tokens", (2, 1), "int64"), TensorSpec("flag", (1,), "bool"))),
    Group("counts", (TensorSpec("count", (2, 1), "int32"),), made_by=Producer.PREPARE),
    Group("inbox", (TensorSpec("task", (4,), "int64"),), Direction.TO_DEVICE),
)
UPDATE, PREPARE = 2, 3
# Ends of the kernels, by step: the prepare of step k ends at 1000 k + 100, the update at 1000 k + 500.
ENDS = [
    row
    for step in range(4)
    for row in (
        (step, PREPARE, 1000 * step + 50, 1000 * step + 100),
        (step, 0, 1000 * step + 100, 1000 * step + 200),
        (step, 1, 1000 * step + 200, 1000 * step + 900),
        (step, UPDATE, 1000 * step + 400, 1000 * step + 500),
    )
]


@pytest.fixture
def result(build):
    """Return the result of a run; `waits` are, by block, rows of WAITS."""

    def make(*waits, kernels=ENDS):
        def block(index, rows):
            starts = np.arange(4, dtype=np.int64) * 1000
            schemas = {"calls": CALLS, "ranges": RANGES, "reads": READS, "journal": JOURNAL}
            log = BlockLog(
                call_sites=(),
                range_names=(),
                kernels=Table.of_rows(KERNELS, kernels),
                waits=Table.of_rows(WAITS, rows),
                tensor_names=(),
                step_starts_ns=starts,
                step_ends_ns=starts + 990,
                **{name: Table.of_rows(schema, []) for name, schema in schemas.items()},
            )
            return build.a_block(log, warmup=1, steps=2, index=index)

        blocks = [block(index, rows) for index, rows in enumerate(waits)]
        return result_of(build.a_run(*blocks, groups=GROUPS, params={"sequences": 2, "kernels": 2}))

    return make


# start, end, CPU time, step, group, step of the values
WAITED = [
    (400, 540, 140, 0, OUTPUTS, 0),  # the warm-up step
    (1400, 1530, 130, 1, OUTPUTS, 1),  # known 1530 - 1500 = 30 after the update
    (2050, 2160, 50, 2, COUNTS, 2),  # known 2160 - 2100 = 60 after the prepare
    (2300, 2320, 0, 2, -1, -1),  # for no values
    (2550, 2560, 10, 2, OUTPUTS, 2),  # entered when the update had ended
    (3400, 3540, 140, 3, OUTPUTS, 3),  # the overrun step
]


def test_waits_and_their_cpu_time_are_means_over_the_counted_steps(result):
    """Four waits in two steps: 130 + 110 + 20 + 10 ns of waiting, 130 + 50 + 0 + 10 ns of CPU time."""
    got = result(WAITED).fence
    assert (2.0, 135.0, 95.0) == (got.per_step, got.wait_ns, got.cpu_ns)


def test_the_cpu_share_is_cpu_time_over_waiting_time(result):
    """95 of 135 ns a step."""
    assert math.isclose(95 / 135, result(WAITED).fence.cpu_share, rel_tol=1e-12)


def test_a_value_is_learnt_from_its_kernels_end_to_the_waits_return(result):
    """30 and 60 ns, each of its own group's kernel; the wait entered later and the one for nothing do not count."""
    learn = result(WAITED).fence.learn
    assert (2, 45.0, 45.0, 60.0, 2) == (learn.count, learn.mean, learn.p50, learn.max, learn.max_step)


def test_a_lagged_value_is_learnt_from_the_kernel_of_its_own_step(result):
    """At step 2 the host waits for step 1's tokens, from before 1500 to 1580: 80 ns, and the wait is step 2's."""
    learn = result([(1490, 1580, 90, 2, OUTPUTS, 1)]).fence.learn
    assert (1, 80.0, 2) == (learn.count, learn.mean, learn.max_step)


@pytest.mark.parametrize(("start", "count"), [(1499, 1), (1500, 0), (1501, 0)])
def test_a_wait_counts_only_if_it_was_entered_before_the_kernels_end(result, start, count):
    """The update of step 1 ends at 1500; how long the host waited counts all the same."""
    got = result([(start, 1600, 0, 1, OUTPUTS, 1)]).fence
    assert count == got.learn.count
    assert (1600 - start) / 2 == got.wait_ns


def test_a_kernel_without_stamps_teaches_nothing(result):
    """No end of a kernel is known: the wait is there, what it took to learn is not."""
    got = result([(1400, 1530, 130, 1, OUTPUTS, 1)], kernels=[]).fence
    assert 65.0 == got.wait_ns
    assert (0, None) == (got.learn.count, got.learn.mean)


def test_without_waits_nothing_is_known_of_them(result):
    """Waits outside the counted steps are none; their number is 0, their times are None and not 0."""
    for waits in ([], [WAITED[0], WAITED[-1]]):
        got = result(waits).fence
        assert (0.0, None, None, None) == (got.per_step, got.wait_ns, got.cpu_ns, got.cpu_share)
        assert (0, None, None) == (got.learn.count, got.learn.mean, got.learn.max)


def test_waits_whose_cpu_time_was_not_sampled_take_that_of_the_others(result):
    """100 ns with 60 of CPU time, and 300 ns of which nothing is known: 60 %, so 240 of 400 ns, in two steps."""
    got = result([(1100, 1200, 60, 1, OUTPUTS, 1), (1500, 1800, -1, 1, OUTPUTS, 1)]).fence
    assert (200.0, 0.6, 120.0) == (got.wait_ns, got.cpu_share, got.cpu_ns)


def test_a_wait_uses_no_more_cpu_time_than_it_lasts(result):
    """The thread's clock is read around the wait's: 102 of 100 ns are all of it; of a second wait 50 of 100: 3/4."""
    got = result([(1100, 1200, 102, 1, OUTPUTS, 1), (1500, 1600, 50, 1, OUTPUTS, 1)]).fence
    assert 0.75 == got.cpu_share


def test_waits_of_no_length_have_no_cpu_share(result):
    """0 / 0 is not known."""
    got = result([(1600, 1600, 0, 1, OUTPUTS, 1)]).fence
    assert (0.5, 0.0, None, None) == (got.per_step, got.wait_ns, got.cpu_ns, got.cpu_share)


def test_blocks_are_counted_together(result):
    """A block of four waits and one of one: 5 waits, 270 + 90 ns, in four steps; learnt 30, 60 and 40 ns."""
    got = result(WAITED, [(1450, 1540, 9, 1, OUTPUTS, 1)]).fence
    assert (1.25, 90.0, (190 + 9) / 4) == (got.per_step, got.wait_ns, got.cpu_ns)
    assert (3, 60.0, 2) == (got.learn.count, got.learn.max, got.learn.max_step)
    assert math.isclose((30 + 60 + 40) / 3, got.learn.mean, rel_tol=1e-12)


def test_each_transfer_has_its_groups_waits(result):
    """Outputs: 130 + 10 ns in two steps, for both of its tensors; counts: 110; the inbox was not waited for: None."""
    assert {"tokens": 70.0, "flag": 70.0, "count": 55.0, "task": None} == {
        transfer.name: transfer.wait_ns for transfer in result(WAITED).transfers
    }


def test_a_groups_waits_of_all_blocks_are_one_mean(result):
    """The second block waits for no counts: 110 ns in four steps."""
    transfers = {transfer.name: transfer.wait_ns for transfer in result(WAITED, []).transfers}
    assert (35.0, 27.5) == (transfers["tokens"], transfers["count"])
