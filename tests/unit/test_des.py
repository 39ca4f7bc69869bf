# ruff: noqa: SIM300 - the expected value stands first
"""fdprof.backends._des: the event simulator on cases worked out by hand.

Gaps of these tests: kernel to kernel 1, kernel to copy 5, copy to copy 2, copy to kernel 3, after anything else 0.
"""

import pytest

from fdprof.backends._des import Engine, Op, Simulator, Stream
from fdprof.errors import ScenarioFailed

GAPS = {("kernel", "kernel"): 1, ("kernel", "copy"): 5, ("copy", "copy"): 2, ("copy", "kernel"): 3}


@pytest.fixture
def simulator():
    return Simulator(lambda before, after: GAPS.get((before, after), 0))


def _kernels(duration_ns, *issued_ns):
    return Op("kernel", duration_ns, issued_ns)


def _copy(engine, duration_ns, issued_ns, effect=None):
    return Op("copy", duration_ns, (issued_ns,), effect, engine)


def test_a_kernel_on_an_idle_device_starts_when_it_was_issued(simulator):
    """Issued at 6 on a device that has done nothing, a kernel of 10 ends at 16."""
    op = simulator.queue(Stream(), _kernels(10, 6))
    simulator.advance(100)
    assert ([6], [16], 16) == (op.starts_ns, op.ends_ns, op.end_ns)


def test_queued_kernels_run_back_to_back_with_the_gap_between(simulator):
    """Three kernels of 10, all issued early, start 11 apart."""
    # 0-10, gap 1, 11-21, gap 1, 22-32.
    op = simulator.queue(Stream(), _kernels(10, 0, 2, 4))
    simulator.advance(100)
    assert ([0, 11, 22], [10, 21, 32]) == (op.starts_ns, op.ends_ns)


def test_a_kernel_issued_late_waits_for_its_own_launch(simulator):
    """The device has been idle since 10 when the second kernel is issued at 50."""
    op = simulator.queue(Stream(), _kernels(10, 0, 50))
    simulator.advance(100)
    assert ([0, 50], [10, 60]) == (op.starts_ns, op.ends_ns)


def test_the_gap_also_stands_between_two_launches(simulator):
    """A second launch, queued while the first runs, starts one gap after it."""
    stream = Stream()
    simulator.queue(stream, _kernels(10, 0))
    second = simulator.queue(stream, _kernels(10, 3))
    simulator.advance(100)
    assert ([11], [21]) == (second.starts_ns, second.ends_ns)


def test_a_copy_follows_a_kernel_and_a_kernel_a_copy_after_their_gaps(simulator):
    """Kernel, copy, copy, kernel in one stream."""
    # kernel 0-10; +5: copy 15-19; +2: copy 21-25; +3: kernel 28-38.
    stream, engine = Stream(), Engine()
    ops = [_kernels(10, 0), _copy(engine, 4, 0), _copy(engine, 4, 0), _kernels(10, 0)]
    for op in ops:
        simulator.queue(stream, op)
    simulator.advance(100)
    assert [([0], [10]), ([15], [19]), ([21], [25]), ([28], [38])] == [(op.starts_ns, op.ends_ns) for op in ops]


def test_two_streams_share_a_copy_engine_first_ready_first_served(simulator):
    """The copy that was ready first goes first, whichever was queued first."""
    # Stream 1: kernel 0-20, copy ready at 25.  Stream 2: kernel 0-10, copy ready at 15, runs 15-45.
    # The engine is free at 45: stream 1's copy runs 45-55.
    engine, first, second = Engine(), Stream(), Stream()
    simulator.queue(first, _kernels(20, 0))
    late = simulator.queue(first, _copy(engine, 10, 0))
    simulator.queue(second, _kernels(10, 0))
    early = simulator.queue(second, _copy(engine, 30, 0))
    simulator.advance(100)
    assert ([15], [45]) == (early.starts_ns, early.ends_ns)
    assert ([45], [55]) == (late.starts_ns, late.ends_ns)


def test_copies_waiting_for_the_engine_run_in_the_order_they_became_ready(simulator):
    """Of three streams, those ready at 1 and 2 while the engine is busy until 10 go in that order."""
    # ready 0: 0-10; ready 1: 10-20; ready 2: 20-30.
    engine = Engine()
    third = simulator.queue(Stream(), _copy(engine, 10, 2))
    first = simulator.queue(Stream(), _copy(engine, 10, 0))
    second = simulator.queue(Stream(), _copy(engine, 10, 1))
    simulator.advance(100)
    assert [0, 10, 20] == [op.starts_ns[0] for op in (first, second, third)]


def test_an_event_takes_no_time_and_opens_no_gap(simulator):
    """An event between two kernels ends with the first and leaves the second where it was."""
    # kernel 0-10, event at 10, gap 1, kernel 11-21.
    stream = Stream()
    simulator.queue(stream, _kernels(10, 0))
    event = simulator.queue(stream, Op("event", 0, (3,)))
    after = simulator.queue(stream, _kernels(10, 4))
    simulator.advance(100)
    assert (10, [11]) == (event.end_ns, after.starts_ns)


def test_an_event_on_an_idle_stream_ends_when_it_is_issued(simulator):
    """Nothing before it: recorded at 7, done at 7."""
    event = simulator.queue(Stream(), Op("event", 0, (7,)))
    simulator.advance(6)
    assert event.end_ns is None
    simulator.advance(1)
    assert 7 == event.end_ns


def test_data_moves_at_the_end_of_an_operation(simulator):
    """One ns before the copy's end its effect has not happened."""
    landed = []
    simulator.queue(Stream(), _copy(Engine(), 10, 0, effect=landed.append))
    simulator.advance(9)
    assert [] == landed
    simulator.advance(1)
    assert [10] == [op.end_ns for op in landed]


def test_blocking_ends_at_the_operations_end(simulator):
    """A host that blocks at 2 for work that ends at 10 goes on at 10."""
    op = simulator.queue(Stream(), _kernels(10, 0))
    simulator.advance(2)
    simulator.block_until(lambda: op.end_ns is not None, 100, "the work")
    assert 10 == simulator.now_ns


def test_blocking_for_what_is_done_takes_no_time(simulator):
    """The work ended at 10; a host that blocks at 30 goes on at 30."""
    op = simulator.queue(Stream(), _kernels(10, 0))
    simulator.advance(30)
    simulator.block_until(lambda: op.end_ns is not None, 100, "the work")
    assert 30 == simulator.now_ns


def test_a_wait_that_ends_just_in_time_does_not_fail(simulator):
    """Work that ends at 10 is waited for with a timeout of 10."""
    op = simulator.queue(Stream(), _kernels(10, 0))
    simulator.block_until(lambda: op.end_ns is not None, 10, "the work")
    assert 10 == simulator.now_ns


def test_a_wait_longer_than_the_timeout_fails_and_says_so(simulator):
    """Work that ends at 10 is not waited for longer than 9; virtual time stands at the deadline."""
    op = simulator.queue(Stream(), _kernels(10, 0))
    with pytest.raises(ScenarioFailed, match="the fence did not end within 9e-09 s") as error:
        simulator.block_until(lambda: op.end_ns is not None, 9, "the fence")
    assert "--timeout" in error.value.hint
    assert 9 == simulator.now_ns


def test_a_wait_for_what_nothing_will_do_fails(simulator):
    """With no work queued the wait cannot end, and the simulator does not hang."""
    with pytest.raises(ScenarioFailed, match="did not end within 1 s"):
        simulator.block_until(lambda: False, 1_000_000_000, "the wait")


def test_a_latch_holds_what_is_queued_behind_it(simulator):
    """Work queued at 0 behind a latch that opens at 40 starts at 40, back to back."""
    stream = Stream()
    latch = simulator.queue(stream, Op("latch", 0, (0,)))
    op = simulator.queue(stream, _kernels(10, 0, 0))
    simulator.advance(40)
    assert op.starts_ns is None
    simulator.end_latch(stream, latch)
    simulator.advance(100)
    assert (40, [40, 51], [50, 61]) == (latch.end_ns, op.starts_ns, op.ends_ns)


def test_pending_launches_fall_when_their_kernels_have_ended(simulator):
    """A launch of two kernels counts until the second has ended."""
    stream = Stream()
    stream.pending_launches = 2
    simulator.queue(stream, _kernels(10, 0, 0))
    simulator.advance(20)
    assert 2 == stream.pending_launches
    simulator.advance(1)  # 0-10, gap 1, 11-21
    assert 0 == stream.pending_launches
