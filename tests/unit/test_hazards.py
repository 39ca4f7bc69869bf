# ruff: noqa: SIM300 - the expected value stands first
"""fdprof.analysis.hazards on journals written by hand: each hazard, and the nearest journal that is right.

A journal is lists of acts, each list at its step.  Buffers and events have made-up numbers; stream 0 is the compute
stream, SIDE and OTHER are streams made beside it.
"""

import numpy as np
import pytest

from fdprof.analysis.hazards import find_hazards
from fdprof.analysis.results import HazardResult, result_of
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
    HazardCode,
    Memory,
    Producer,
    Table,
    TensorSpec,
)

NAMES = ("tokens", "flag", "count", "task", "scores")
GROUPS = (
    Group("outputs", (TensorSpec("tokens", (2, 1), "int64"), TensorSpec("flag", (1,), "bool"))),
    Group("counts", (TensorSpec("count", (2, 1), "int32"),), made_by=Producer.PREPARE),
    Group("inbox", (TensorSpec("task", (4,), "int64"),), Direction.TO_DEVICE),
    Group("logprobs", (TensorSpec("scores", (2, 1), "float32"),)),
)
SIDE, OTHER = 1, 2


def _row(act, stream=0, tensor=None, buffer=-1, event=-1, detail=0):
    return act, stream, -1 if tensor is None else NAMES.index(tensor), buffer, event, detail


def _named(act):
    """Return a maker of acts about a tensor and a buffer."""
    return lambda tensor, buffer, stream=0: _row(act, stream, tensor, buffer)


copy, fetch, upload, store, read, write, release, drift = map(
    _named, (Act.COPY, Act.FETCH, Act.UPLOAD, Act.STORE, Act.READ, Act.WRITE, Act.RELEASE, Act.DRIFT)
)
PREPARE, FORWARD, SYNCHRONIZE = _row(Act.PREPARE), _row(Act.FORWARD), _row(Act.SYNCHRONIZE)


def update(stream=0, lacking=0):
    return _row(Act.UPDATE, stream, detail=lacking)


def publish(tensor, buffer, publication, stream=0):
    return _row(Act.PUBLISH, stream, tensor, buffer, publication)


def poll(publication, step):
    return _row(Act.POLL, event=publication, detail=step)


def record(event, stream=0):
    return _row(Act.RECORD, stream, event=event)


def stream_wait(event, stream=0):
    return _row(Act.STREAM_WAIT, stream, event=event)


def wait(event):
    return _row(Act.WAIT, event=event)


def allocate(tensor, buffer, memory=Memory.PINNED):
    return _row(Act.ALLOCATE, 0, tensor, buffer, detail=list(Memory).index(memory))


@pytest.fixture
def journalled(build):
    """Return a block whose step k did the k-th list of acts; `reads` are rows of READS."""

    def make(*steps, reads=(), index=0):
        acts = list(Act)
        rows = [
            (acts.index(act), step, stream, tensor, buffer, event, detail)
            for step, listed in enumerate(steps)
            for act, stream, tensor, buffer, event, detail in listed
        ]
        empty = {
            name: Table.of_rows(schema, [])
            for name, schema in (("calls", CALLS), ("ranges", RANGES), ("kernels", KERNELS), ("waits", WAITS))
        }
        starts = np.arange(len(steps), dtype=np.int64) * 100
        log = BlockLog(
            call_sites=(),
            range_names=(),
            reads=Table.of_rows(READS, reads),
            journal=Table.of_rows(JOURNAL, rows),
            tensor_names=NAMES,
            step_starts_ns=starts,
            step_ends_ns=starts + 90,
            **empty,
        )
        return build.a_block(log, index=index)

    return make


@pytest.fixture
def found(journalled):
    """Return (code, step, tensor) of the hazards of a journal."""

    def find(*steps):
        return [(hazard.code, hazard.step, hazard.tensor) for hazard in find_hazards(journalled(*steps), GROUPS)]

    return find


# Each code, and the nearest journal without it.

FENCED = [update(), copy("tokens", 10), record(50), wait(50), read("tokens", 10)]


def test_a_fenced_copy_is_safe(found):
    """Copy, record, wait, read, over and over: nothing."""
    assert [] == found(FENCED, FENCED, FENCED)


def test_no_journal_has_no_hazards(found):
    """A run that was not audited has an empty journal."""
    assert [] == found()


def test_a_read_without_a_wait_is_before_the_fence(found):
    """Step 1 forgot the wait."""
    forgotten = [update(), copy("tokens", 10), record(50), read("tokens", 10)]
    assert [(HazardCode.READ_BEFORE_FENCE, 1, "tokens")] == found(FENCED, forgotten)


def test_a_wait_after_the_read_comes_too_late(found):
    """The wait is there, one line too low."""
    late = [update(), copy("tokens", 10), record(50), read("tokens", 10), wait(50)]
    assert [(HazardCode.READ_BEFORE_FENCE, 0, "tokens")] == found(late)


def test_a_wait_for_another_copys_event_is_for_the_wrong_event(found):
    """Step 1 waits for the event of step 0, and the event of step 1 would have been right."""

    def second(event):
        return [update(), copy("tokens", 11), record(51), wait(event), read("tokens", 11)]

    assert [(HazardCode.WRONG_EVENT, 1, "tokens")] == found(FENCED, second(50))
    assert [] == found(FENCED, second(51))


def test_an_event_recorded_before_the_copy_is_the_wrong_event(found):
    """Record and copy have changed places."""
    assert [(HazardCode.WRONG_EVENT, 0, "flag")] == found(
        [update(), record(50), copy("flag", 10), wait(50), read("flag", 10)]
    )


def test_every_read_behind_a_wrong_wait_is_for_the_wrong_event(found):
    """One wait, two reads: neither came without a wait.  A copy in between ends what the wait was for."""
    start = [update(), record(50), copy("tokens", 10), copy("flag", 11), wait(50)]
    assert [(HazardCode.WRONG_EVENT, 0, "tokens"), (HazardCode.WRONG_EVENT, 0, "flag")] == found(
        [*start, read("tokens", 10), read("flag", 11)]
    )
    assert [(HazardCode.WRONG_EVENT, 0, "tokens"), (HazardCode.READ_BEFORE_FENCE, 0, "flag")] == found(
        [*start, read("tokens", 10), copy("scores", 12), read("flag", 11)]
    )


def test_one_event_for_two_steps_is_recorded_again_before_its_wait(found):
    """With a lag of one step, the wait for step 0 comes behind the record of step 1; two events keep them apart."""

    def overlapped(first, second):
        return (
            [update(), copy("tokens", 10), record(first)],
            [update(), copy("tokens", 11), record(second), wait(first), read("tokens", 10)],
        )

    assert [(HazardCode.EVENT_RECORDED_AGAIN, 1, "tokens")] == found(*overlapped(50, 50))
    assert [] == found(*overlapped(50, 51))


def test_an_event_may_be_recorded_again_after_its_wait(found):
    """The host has what it waited for: the next record takes nothing away, before the read or after."""
    assert [] == found([update(), copy("tokens", 10), record(50), wait(50), record(50), read("tokens", 10)], FENCED)


def test_each_of_several_events_waited_for_may_have_been_recorded_again(found):
    """Both groups' waits come before both groups' reads; the first group's event is the one used for two steps."""
    first = [update(), copy("tokens", 10), record(50), copy("scores", 11), record(51)]
    second = [copy("tokens", 12), record(50), wait(50), wait(51), read("tokens", 10), read("scores", 11)]
    assert [(HazardCode.EVENT_RECORDED_AGAIN, 1, "tokens")] == found(first, second)


def test_an_event_recorded_in_another_stream_guards_nothing(found):
    """Step 1 records its event in the side stream: the wrong event, and not one that guarded this copy before."""
    assert [(HazardCode.WRONG_EVENT, 1, "tokens")] == found(
        FENCED, [update(), copy("tokens", 10), record(50, SIDE), wait(50), read("tokens", 10)]
    )


def test_a_copy_into_a_buffer_that_was_not_read_finds_the_ring_too_shallow(found):
    """With a lag of one step and one buffer, step 1 overwrites step 0's values before they are read."""

    def overlapped(second):
        return (
            [update(), copy("tokens", 10), record(50)],
            [update(), copy("tokens", second), record(51), wait(50), read("tokens", 10)],
        )

    assert [(HazardCode.RING_TOO_SHALLOW, 1, "tokens")] == found(*overlapped(10))
    assert [] == found(*overlapped(11))


def test_the_values_that_overwrote_others_are_still_to_be_read(found):
    """Step 1's read takes step 0's turn, step 2's read what is there: step 3's copy does no harm, its read does."""
    assert [(HazardCode.RING_TOO_SHALLOW, 1, "tokens"), (HazardCode.READ_BEFORE_FENCE, 3, "tokens")] == found(
        [update(), copy("tokens", 10), record(50)],
        [update(), copy("tokens", 10), record(51), wait(50), read("tokens", 10)],
        [wait(51), read("tokens", 10)],
        [update(), copy("tokens", 10), record(50), read("tokens", 10)],
    )


def test_a_buffer_that_was_read_may_be_copied_into(found):
    """The same buffer, read in between: the second copy does no harm."""
    assert [] == found(
        [update(), copy("tokens", 10), record(50), wait(50), read("tokens", 10), copy("tokens", 10), record(50)]
    )


def test_a_source_written_while_its_upload_may_be_queued_is_rewritten(found):
    """The second write needs a wait for the event behind the first upload."""

    def twice(*fence):
        first = [write("task", 20), upload("task", 20), record(50)]
        return [*first, *fence, write("task", 20), upload("task", 20), record(50), PREPARE]

    assert [(HazardCode.SOURCE_REWRITTEN, 1, "task")] == found([], twice())
    assert [] == found([], twice(wait(50)))


def test_a_buffer_given_back_with_its_copy_in_flight_is_recycled(found):
    """Copies to the host and to the device alike; behind a wait both are safe."""

    def to_host(*fence):
        return [allocate("tokens", 10), update(), copy("tokens", 10), record(50), *fence, release("tokens", 10)]

    def to_device(*fence):
        return [write("task", 20), upload("task", 20), record(51), *fence, release("task", 20)]

    assert [(HazardCode.BUFFER_RECYCLED, 0, "tokens")] == found(to_host())
    assert [(HazardCode.BUFFER_RECYCLED, 0, "task")] == found(to_device())
    assert [] == found(to_host(wait(50)), to_device(wait(51)))


def test_a_buffer_made_every_step_is_safe_behind_its_wait(found):
    """Made, copied into, waited for, read, given back; made anew under the same number it starts with no past."""
    step = [allocate("tokens", 10), *FENCED, release("tokens", 10)]
    assert [] == found(step, step)


def test_a_buffer_made_anew_has_no_past(found):
    """The copy that was in flight when it was given back is reported once, then, and not of its next life."""
    assert [(HazardCode.BUFFER_RECYCLED, 0, "tokens")] == found(
        [update(), copy("tokens", 10), record(50), release("tokens", 10)],
        [allocate("tokens", 10), read("tokens", 10), release("tokens", 10)],
    )


def test_a_release_of_a_buffer_that_was_never_used_is_safe(found):
    """Buffers are made and dropped when the ring is set up."""
    assert [] == found([allocate("tokens", 10), release("tokens", 10)])


def test_a_write_that_a_copy_may_overwrite_is_lost(found):
    """The host sets the flag while the copy into it is in flight; behind the wait it may."""
    queued = [update(), copy("flag", 10), record(50)]
    assert [(HazardCode.WRITE_LOST, 1, "flag")] == found([], [*queued, write("flag", 10), wait(50), read("flag", 10)])
    assert [] == found([], [*queued, wait(50), write("flag", 10), read("flag", 10)])


def test_a_buffer_found_on_the_device_has_drifted(found):
    """The audit notes a drift behind the read that found it."""
    assert [(HazardCode.PINNED_DRIFTED, 1, "tokens")] == found(FENCED, [*FENCED, drift("tokens", 10)])


def test_rows_that_were_not_launched_for_are_a_stale_count(found):
    """Two rows short at step 1; with none short there is nothing to say, and no tensor either way."""
    assert [(HazardCode.STALE_COUNT, 1, None)] == found([update()], [update(lacking=2)])
    assert [] == found([update()], [update(lacking=0)])


def test_a_copy_on_another_stream_must_wait_for_the_kernel(found):
    """An event from the compute stream to the side stream puts them in order."""

    def copied(*order):
        return [update(), *order, copy("tokens", 10, SIDE), record(50, SIDE), wait(50), read("tokens", 10)]

    assert [(HazardCode.COPY_UNORDERED, 0, "tokens")] == found(copied())
    assert [] == found(copied(record(60), stream_wait(60, SIDE)))


def test_the_next_kernel_must_wait_for_a_copy_on_another_stream(found):
    """Step 1's update overwrites what step 0's copy may still be reading; the flag was not copied."""

    def overlapped(*order):
        first = [update(), record(60), stream_wait(60, SIDE), copy("tokens", 10, SIDE), record(50, SIDE)]
        return first, [*order, update(), wait(50), read("tokens", 10)]

    assert [(HazardCode.TENSOR_OVERWRITTEN, 1, "tokens")] == found(*overlapped())
    assert [] == found(*overlapped(stream_wait(50)))
    assert [] == found(*overlapped(wait(50)))  # what the host knows to be done is done


def test_a_tensor_is_overwritten_once(found):
    """Step 2's update overwrites the values of step 1, which nothing reads."""
    first = [update(), record(60), stream_wait(60, SIDE), copy("tokens", 10, SIDE)]
    assert [(HazardCode.TENSOR_OVERWRITTEN, 1, "tokens")] == found(first, [update()], [update()])


def test_only_the_kernel_that_makes_a_tensor_overwrites_it(found):
    """The copy of tokens in flight on the side stream minds neither prepare nor forward."""
    first = [update(), record(60), stream_wait(60, SIDE), copy("tokens", 10, SIDE), record(50, SIDE)]
    assert [] == found(first, [PREPARE, FORWARD])
    assert [] == found(
        [PREPARE, record(60), stream_wait(60, SIDE), copy("count", 10, SIDE), record(50, SIDE), FORWARD, update()]
    )


def test_an_upload_on_another_stream_must_come_before_the_prepare_kernel(found):
    """The pre-processing takes in what was sent: the compute stream has to wait for it."""

    def sent(*order):
        return [write("task", 20), upload("task", 20, SIDE), record(50, SIDE), *order, PREPARE]

    assert [(HazardCode.COPY_UNORDERED, 0, "task")] == found(sent())
    assert [] == found(sent(stream_wait(50)))


def test_only_the_prepare_kernel_takes_in_what_was_sent(found):
    """Forward and update need not wait for the upload."""
    assert [] == found(
        [write("task", 20), upload("task", 20, SIDE), record(50, SIDE), FORWARD, update(), stream_wait(50), PREPARE]
    )


def test_an_upload_must_not_overwrite_what_the_prepare_kernel_may_be_reading(found):
    """The next upload, on the side stream, has to wait for the kernel that takes in the one before."""

    def sent(*order):
        return [PREPARE, record(60), *order, write("task", 20), upload("task", 20, SIDE), record(50, SIDE)]

    assert [(HazardCode.TENSOR_OVERWRITTEN, 0, "task")] == found(sent())
    assert [] == found(sent(stream_wait(60, SIDE)))


# Order carried through events and streams.


def test_order_goes_through_events_from_stream_to_stream(found):
    """Compute to side to other: the copy on the third stream is behind the kernel; without one link it is not."""

    def chain(*link):
        end = [copy("tokens", 10, OTHER), record(50, OTHER), wait(50), read("tokens", 10)]
        return [update(), record(60), stream_wait(60, SIDE), record(61, SIDE), *link, *end]

    assert [] == found(chain(stream_wait(61, OTHER)))
    assert [(HazardCode.COPY_UNORDERED, 0, "tokens")] == found(chain())


def test_a_wait_covers_what_the_events_stream_had_waited_for(found):
    """The host waits for the side stream, which had waited for the compute stream's copy."""

    def carried(*order):
        return [update(), copy("tokens", 10), record(60), *order, record(61, SIDE), wait(61), read("tokens", 10)]

    assert [] == found(carried(stream_wait(60, SIDE)))
    assert [(HazardCode.WRONG_EVENT, 0, "tokens")] == found(carried())


def test_a_wait_covers_older_copies_of_its_stream_and_of_no_other(found):
    """The newer event stands behind the older copy too, if both are in one stream."""

    def two(stream):
        order = [record(60), stream_wait(60, SIDE)]
        first = [copy("tokens", 10, stream), record(50, stream)]
        return [update(), *order, *first, copy("flag", 11), record(51), wait(51), read("tokens", 10)]

    assert [] == found(two(0))
    assert [(HazardCode.WRONG_EVENT, 0, "tokens")] == found(two(SIDE))


def test_a_stream_waits_for_the_record_that_was_newest_then(found):
    """A record of the same event after the stream_wait does not move the wait; one before it does."""
    start, end = [record(60), update()], [copy("tokens", 10, SIDE)]
    assert [(HazardCode.COPY_UNORDERED, 0, "tokens")] == found([*start, stream_wait(60, SIDE), record(60), *end])
    assert [] == found([*start, record(60), stream_wait(60, SIDE), *end])


def test_an_event_recorded_again_elsewhere_no_longer_covers_the_copy(found):
    """The event's newest record stands in a stream that knows nothing of the copy: one report, of the cause."""
    assert [(HazardCode.EVENT_RECORDED_AGAIN, 0, "tokens")] == found(
        [update(), copy("tokens", 10), record(50), record(50, SIDE), wait(50), read("tokens", 10)]
    )


def test_values_that_an_earlier_wait_covered_are_safe_whatever_the_event_does_later(found):
    """Copy A was waited for; that its event is recorded again behind copy B, and waited for, takes nothing back."""
    assert [] == found(
        [update(), copy("tokens", 10), record(50), wait(50), copy("flag", 11), record(50), wait(50)],
        [read("tokens", 10), read("flag", 11)],
    )


def test_what_the_host_waited_for_comes_before_what_it_queues_next(found):
    """A copy on the side stream needs no event from the compute stream when the host has waited for the kernel."""
    assert [] == found(
        [update(), record(60), wait(60), copy("tokens", 10, SIDE), record(50, SIDE), wait(50), read("tokens", 10)]
    )


# Calls that block.


def test_a_blocking_copy_is_read_without_a_fence(found):
    """fetch and store return when they are done; their memory is free to be written, their tensor to be used."""
    assert [] == found(
        [write("task", 20), store("task", 20), write("task", 20), PREPARE, update(), fetch("tokens", 10)],
        [read("tokens", 10), update(), fetch("tokens", 11), read("tokens", 11)],
    )


def test_a_blocking_copy_waits_for_the_compute_stream(found):
    """Every copy queued there is done when it returns."""
    assert [] == found([update(), copy("tokens", 10), record(50), fetch("flag", 11), read("tokens", 10)])
    assert [] == found([update(), copy("tokens", 10), record(50), store("task", 20), read("tokens", 10)])


def test_a_blocking_copy_does_not_wait_for_a_side_stream(found):
    """A copy on a stream made beside it may still be in flight."""
    assert [(HazardCode.READ_BEFORE_FENCE, 0, "tokens")] == found(
        [
            update(),
            record(60),
            stream_wait(60, SIDE),
            copy("tokens", 10, SIDE),
            record(50, SIDE),
            fetch("flag", 11),
            read("flag", 11),
            read("tokens", 10),
        ]
    )


def test_a_blocking_copy_of_values_made_on_a_side_stream_is_unordered(found):
    """Until the compute stream, or the host, waits for the side stream's event."""

    def fetched(*order):
        return [update(SIDE), record(60, SIDE), *order, fetch("tokens", 10), read("tokens", 10)]

    assert [(HazardCode.COPY_UNORDERED, 0, "tokens")] == found(fetched())
    assert [] == found(fetched(stream_wait(60)))
    assert [] == found(fetched(wait(60)))


def test_synchronize_covers_the_compute_stream_and_no_other(found):
    """A copy on the side stream is covered only where the compute stream waited for it."""
    assert [] == found([update(), copy("tokens", 10), SYNCHRONIZE, read("tokens", 10)])
    aside = [update(), record(60), stream_wait(60, SIDE), copy("tokens", 10, SIDE), record(50, SIDE)]
    assert [(HazardCode.READ_BEFORE_FENCE, 0, "tokens")] == found([*aside, SYNCHRONIZE, read("tokens", 10)])
    assert [] == found([*aside, stream_wait(50), SYNCHRONIZE, read("tokens", 10)])


def test_synchronize_does_not_cover_what_is_queued_after_it(found):
    """Step 1's copy is behind it."""
    assert [(HazardCode.READ_BEFORE_FENCE, 1, "tokens")] == found(
        FENCED, [update(), SYNCHRONIZE, copy("tokens", 10), read("tokens", 10)]
    )


def test_a_copy_to_pageable_memory_has_ended_when_its_call_returns(found):
    """CUDA runtime API, "API synchronization behavior": to pageable memory, the call returns after the copy has ended.

    model.Memory says the same: a copy blocks its caller, whatever its name.
    """
    assert [] == found([allocate("tokens", 10, Memory.PAGEABLE), update(), copy("tokens", 10), read("tokens", 10)])


# Mapped memory.  Publications have numbers like events.


def test_published_values_are_read_behind_the_poll_for_them(found):
    """Without the poll it is a read before the fence; with the poll for the step before, the wrong one."""
    start = [update(), publish("tokens", 10, 70)]

    def second(*fence):
        return [update(), publish("tokens", 11, 70), *fence, read("tokens", 11)]

    assert [] == found([*start, poll(70, 0), read("tokens", 10)], second(poll(70, 1)))
    assert [(HazardCode.READ_BEFORE_FENCE, 1, "tokens")] == found(start, second())
    assert [(HazardCode.WRONG_EVENT, 1, "tokens")] == found(start, second(poll(70, 0)))


def test_a_publication_into_a_slot_that_was_not_read_finds_the_ring_too_shallow(found):
    """With a lag of one step and one slot, step 1's kernel overwrites step 0's values."""

    def overlapped(second):
        return (
            [update(), publish("tokens", 10, 70)],
            [update(), publish("tokens", second, 70), poll(70, 0), read("tokens", 10)],
        )

    assert [(HazardCode.RING_TOO_SHALLOW, 1, "tokens")] == found(*overlapped(10))
    assert [] == found(*overlapped(11))


def test_a_poll_says_nothing_of_what_was_queued_behind_the_kernel(found):
    """A copy behind the publishing kernel may be in flight; one before it, in its stream, is done."""
    after = [update(), publish("tokens", 10, 70), copy("flag", 11), record(50), poll(70, 0), read("flag", 11)]
    assert [(HazardCode.WRONG_EVENT, 0, "flag")] == found(after)
    before = [PREPARE, copy("count", 11), record(50), update(), publish("tokens", 10, 70), poll(70, 0)]
    assert [] == found([*before, read("count", 11)])


def test_a_poll_covers_the_values_of_its_own_publication_only(found):
    """A kernel publishes two groups, one number after the other: the first number says nothing of the second group."""
    start = [update(), publish("tokens", 10, 70), publish("scores", 11, 71), poll(70, 0), read("tokens", 10)]
    assert [] == found([*start, poll(71, 0), read("scores", 11)])
    assert [(HazardCode.WRONG_EVENT, 0, "scores")] == found([*start, read("scores", 11)])


def test_a_poll_for_an_older_step_does_not_cover_what_was_published_since_in_its_slot(found):
    """One slot, read in each step: the number of step 0 has long been there when step 1's values are on their way."""
    start = [update(), publish("tokens", 10, 70), poll(70, 0), read("tokens", 10)]

    def second(step):
        return [update(), publish("tokens", 10, 70), poll(70, step), read("tokens", 10)]

    assert [] == found(start, second(1))
    assert [(HazardCode.WRONG_EVENT, 1, "tokens")] == found(start, second(0))


def test_a_poll_covers_what_the_kernels_stream_had_waited_for(found):
    """The publishing kernel ran behind the side stream's copy, so that copy is done when its number is seen."""

    def polled(*order):
        side = [PREPARE, record(60), stream_wait(60, SIDE), copy("count", 11, SIDE), record(50, SIDE)]
        return [*side, *order, update(), publish("tokens", 10, 70), poll(70, 0), read("count", 11)]

    assert [(HazardCode.WRONG_EVENT, 0, "count")] == found(polled())
    assert [] == found(polled(stream_wait(50)))


# Reports.


def test_hazards_come_in_the_order_they_happened(found):
    """Two in step 0 and one in step 2."""
    unfenced = [update(), copy("tokens", 10), copy("flag", 11), read("flag", 11), read("tokens", 10)]
    assert [
        (HazardCode.READ_BEFORE_FENCE, 0, "flag"),
        (HazardCode.READ_BEFORE_FENCE, 0, "tokens"),
        (HazardCode.STALE_COUNT, 2, None),
    ] == found(unfenced, [SYNCHRONIZE], [update(lacking=1)])


@pytest.mark.parametrize(("stale", "wrong", "is_proved"), [(0, 0, False), (1, 0, True), (0, 1, True)])
def test_a_hazard_is_proved_by_a_value_not_right_in_its_step(journalled, stale, wrong, is_proved):
    """Rows are (step, value step, group, right, stale, wrong, digest): step 1's decides, step 0's is stale anyway."""
    unfenced = [update(), copy("tokens", 10), record(50), read("tokens", 10)]
    block = journalled(FENCED, unfenced, reads=[(0, 0, 0, 1, 1, 0, 0), (1, 1, 0, 2, stale, wrong, 0)])
    (hazard,) = find_hazards(block, GROUPS)
    assert (HazardCode.READ_BEFORE_FENCE, 1, is_proved) == (hazard.code, hazard.step, hazard.is_proved)


def test_a_run_counts_its_hazards_by_code_over_all_blocks(build, journalled):
    """Two stale counts in block 0, of which step 1's is proved, and one in block 1; the first is block 0's."""
    first = journalled([update()], [update(lacking=1)], [update(lacking=1)], reads=[(1, 1, 0, 0, 0, 1, 0)])
    second = journalled([update(lacking=1)], [update(), copy("flag", 10), read("flag", 10)], index=1)
    changes = {"groups": GROUPS, "params": {"sequences": 2, "kernels": 1}}
    assert (
        HazardResult(HazardCode.READ_BEFORE_FENCE, 1, 0, 1, "flag"),
        HazardResult(HazardCode.STALE_COUNT, 3, 1, 1, None),
    ) == result_of(build.a_run(first, second, audited=True, **changes)).hazards
    assert result_of(build.a_run(first, second, **changes)).hazards is None
