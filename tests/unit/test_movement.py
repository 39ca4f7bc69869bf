# ruff: noqa: SIM300 - the expected value stands first
"""fdprof.analysis.movement on journals written by hand."""

import numpy as np
import pytest

from fdprof.analysis.movement import Movement, movement_of
from fdprof.model import (
    CALLS,
    JOURNAL,
    KERNELS,
    RANGES,
    READS,
    WAITS,
    Act,
    BlockLog,
    Direction,
    Group,
    Memory,
    Table,
    TensorSpec,
)

TOKENS, FLAG, TASK = (
    TensorSpec("tokens", (2, 1), "int64"),
    TensorSpec("flag", (1,), "bool"),
    TensorSpec("task", (5,), "int32"),
)
NAMES = ("tokens", "flag", "task")
GROUPS = (Group("outputs", (TOKENS, FLAG)), Group("inbox", (TASK,), Direction.TO_DEVICE))


@pytest.fixture
def movement(build):
    """Return the movement of a block with one warm-up and two counted steps whose step k did the k-th list of acts."""

    def find(*steps):
        acts = list(Act)
        rows = []
        for step, listed in enumerate(steps):
            for act, *rest in listed:
                tensor, buffer, memory = (*rest, *(None, -1, Memory.PINNED)[len(rest) :])
                name = -1 if tensor is None else NAMES.index(tensor)
                rows.append((acts.index(act), step, 0, name, buffer, -1, list(Memory).index(memory)))
        schemas = {"calls": CALLS, "ranges": RANGES, "kernels": KERNELS, "reads": READS, "waits": WAITS}
        starts = np.arange(len(steps), dtype=np.int64) * 100
        log = BlockLog(
            call_sites=(),
            range_names=(),
            journal=Table.of_rows(JOURNAL, rows),
            tensor_names=NAMES,
            step_starts_ns=starts,
            step_ends_ns=starts + 90,
            **{name: Table.of_rows(schema, []) for name, schema in schemas.items()},
        )
        return movement_of(build.a_block(log, warmup=1, steps=2), GROUPS)

    return find


def test_transfers_and_bytes_are_means_over_the_counted_steps(movement):
    """Step 1 moves three tensors, step 2 one; the warm-up and the overrun step are not counted."""
    step = [(Act.COPY, "tokens"), (Act.COPY, "flag"), (Act.UPLOAD, "task")]
    # (3 + 1) / 2 transfers; (16 + 1 + 16) / 2 B to the host; 20 / 2 B to the device.
    assert Movement(2.0, 16.5, 10.0, 0.0, 0) == movement(step, step, [(Act.COPY, "tokens")], step)


@pytest.mark.parametrize("act", [Act.COPY, Act.FETCH, Act.PUBLISH])
def test_what_goes_to_the_host_counts_as_such(movement, act):
    """A queued copy, a blocking one, and what the kernel writes by itself: 16 B in one of two steps."""
    got = movement([], [(act, "tokens")], [])
    assert (0.5, 8.0, 0.0) == (got.transfers, got.to_host_bytes, got.to_device_bytes)


@pytest.mark.parametrize("act", [Act.UPLOAD, Act.STORE])
def test_what_goes_to_the_device_counts_as_such(movement, act):
    """A queued copy and a blocking one: 20 B in one of two steps."""
    got = movement([], [], [(act, "task")])
    assert (0.5, 0.0, 10.0) == (got.transfers, got.to_host_bytes, got.to_device_bytes)


def test_a_sync_is_a_call_in_which_the_host_waits(movement):
    """Five of these acts wait; records, waits of streams, copies queued to pinned memory and host memory do not."""
    waiting = [(Act.WAIT,), (Act.SYNCHRONIZE,), (Act.POLL,), (Act.FETCH, "tokens"), (Act.STORE, "task")]
    waiting_not = [
        (Act.PREPARE,),
        (Act.FORWARD,),
        (Act.UPDATE,),
        (Act.COPY, "tokens"),
        (Act.UPLOAD, "task"),
        (Act.PUBLISH, "flag"),
        (Act.RECORD,),
        (Act.STREAM_WAIT,),
        (Act.READ, "tokens"),
        (Act.WRITE, "task"),
        (Act.ALLOCATE, "tokens"),
        (Act.RELEASE, "tokens"),
        (Act.DRIFT, "tokens"),
    ]
    assert len(Act) == len(waiting) + len(waiting_not)
    assert 2.5 == movement(waiting, waiting, waiting_not, waiting).syncs
    assert 0.0 == movement(waiting, waiting_not, waiting_not).syncs


def test_a_copy_to_pageable_memory_is_a_sync(movement):
    """Asynchronous in name: the host waits in it.  The one to pinned memory beside it does not."""
    setup = [(Act.ALLOCATE, "tokens", 10, Memory.PAGEABLE), (Act.ALLOCATE, "flag", 11, Memory.PINNED)]
    step = [(Act.COPY, "tokens", 10), (Act.COPY, "flag", 11)]
    assert 1.0 == movement(setup, step, step).syncs


def test_host_memory_is_the_most_that_was_held_at_once(movement):
    """Two buffers of tokens and a flag before the loop, in whichever step it was: 16 + 16 + 1 B."""
    setup = [(Act.ALLOCATE, "tokens"), (Act.ALLOCATE, "tokens"), (Act.ALLOCATE, "flag")]
    assert 33 == movement(setup, [], []).host_memory_bytes


def test_memory_that_was_given_back_is_held_no_longer(movement):
    """A buffer of 16 B a step, given back each time, beside one of 1 B; 20 B come when it is gone."""
    step = [(Act.ALLOCATE, "tokens"), (Act.RELEASE, "tokens")]
    assert 17 == movement([(Act.ALLOCATE, "flag")], step, step).host_memory_bytes
    assert 21 == movement([(Act.ALLOCATE, "flag")], step, [*step, (Act.ALLOCATE, "task")]).host_memory_bytes


def test_what_a_blocking_copy_returns_is_held_once(movement):
    """Each fetch makes 16 B anew and drops those of the step before; the source of a store was allocated: 20 B."""
    step = [(Act.STORE, "task"), (Act.FETCH, "tokens")]
    assert 36 == movement([(Act.ALLOCATE, "task"), *step], step, step).host_memory_bytes


def test_nothing_moved_is_zero(movement):
    """A loop that computes only."""
    assert Movement(0.0, 0.0, 0.0, 0.0, 0) == movement([(Act.UPDATE,)], [(Act.UPDATE,)], [(Act.UPDATE,)])
