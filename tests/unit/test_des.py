# ruff: noqa: SIM300 - the expected value stands first
"""fdprof.backends._des: the event simulator on cases worked out by hand.

Gaps of these tests: kernel to kernel 1, kernel to copy 5, copy to copy 2, copy to kernel 3, after anything else 0;
between the kernels of a graph 4.
"""

import pytest

from fdprof.backends._des import Engine, Op, Simulator, Stream
from fdprof.errors import ScenarioFailed

GAPS = {("kernel", "kernel"): 1, ("kernel", "copy"): 5, ("copy", "copy"): 2, ("copy", "kernel"): 3}


@pytest.fixture
def simulator():
    return Simulator(lambda before, after: GAPS.get((before, after), 0), graph_gap_ns=4)


def _kernels(duration_ns, *issued_ns):
    return Op("kernel", duration_ns, issued_ns)


def _copy(engine, duration_ns, issued_ns, effect=None):
    return Op("copy", duration_ns, (issued_ns,), effect, engine)


def _event(issued_ns=0):
    return Op("event", 0, (issued_ns,))


def _wait(event, duration_ns, issued_ns=0):
    return Op("wait", duration_ns, (issued_ns,), awaited=event)


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
    """A launch of two kernels counts two until the second has ended."""
    stream = Stream()
    simulator.queue(stream, _kernels(10, 0, 0))
    simulator.advance(20)
    assert 2 == stream.pending_launches
    simulator.advance(1)  # 0-10, gap 1, 11-21
    assert 0 == stream.pending_launches


def test_a_graph_is_one_launch_with_a_gap_of_its_own(simulator):
    """Three kernels of a graph stand 4 apart, and the next kernel the usual 1; the graph counts as one launch."""
    # 0-10, 14-24, 28-38; then 39-49.
    stream = Stream()
    graph = simulator.queue(stream, Op("kernel", 10, (0, 0, 0), is_graph=True))
    after = simulator.queue(stream, _kernels(10, 0))
    assert 2 == stream.pending_launches
    simulator.advance(38)
    assert 1 == stream.pending_launches
    simulator.advance(100)
    assert ([0, 14, 28], [10, 24, 38], [39]) == (graph.starts_ns, graph.ends_ns, after.starts_ns)


def test_a_stream_waits_for_an_event_of_another(simulator):
    """The news of an event at 20 takes 6: work behind the wait starts at 26, with no gap added."""
    made = simulator.queue(first := Stream(), _kernels(20, 0))
    event = simulator.queue(first, _event())
    simulator.queue(second := Stream(), _wait(event, 6))
    copy = simulator.queue(second, _copy(Engine(), 4, 0))
    simulator.advance(100)
    assert (20, 20, [26], 30) == (made.end_ns, event.end_ns, copy.starts_ns, copy.end_ns)


def test_the_stream_that_is_waited_for_goes_on(simulator):
    """A copy in a second stream opens no gap between the kernels of the first."""
    # kernels 0-10 and 11-21; copy 10 + 2 = 12-32.
    first, second = Stream(), Stream()
    simulator.queue(first, _kernels(10, 0))
    event = simulator.queue(first, _event())
    next_kernel = simulator.queue(first, _kernels(10, 0))
    simulator.queue(second, _wait(event, 2))
    copy = simulator.queue(second, _copy(Engine(), 20, 0))
    simulator.advance(100)
    assert ([11], [12]) == (next_kernel.starts_ns, copy.starts_ns)


def test_a_wait_for_an_event_long_done_holds_nothing(simulator):
    """The event was done at 0: the second stream's next kernel keeps its own gap, 1 after the one before."""
    event = simulator.queue(Stream(), _event())
    stream = Stream()
    simulator.queue(stream, _kernels(10, 0))
    simulator.advance(1)
    simulator.queue(stream, _wait(event, 6, 1))
    after = simulator.queue(stream, _kernels(10, 1))
    simulator.advance(100)
    assert [11] == after.starts_ns


def test_an_event_behind_a_wait_ends_with_it(simulator):
    """An event recorded in a stream that waits until 26 is not done before 26."""
    simulator.queue(first := Stream(), _kernels(20, 0))
    event = simulator.queue(first, _event())
    simulator.queue(second := Stream(), _wait(event, 6))
    behind = simulator.queue(second, _event())
    simulator.advance(100)
    assert 26 == behind.end_ns


def test_a_wait_is_issued_by_the_host(simulator):
    """Told at 40 to wait for an event of 20, an idle stream goes on at 40."""
    simulator.queue(first := Stream(), _kernels(20, 0))
    event = simulator.queue(first, _event())
    simulator.queue(second := Stream(), _wait(event, 6, 40))
    behind = simulator.queue(second, _kernels(10, 0))
    simulator.advance(100)
    assert [40] == behind.starts_ns


def test_copies_of_both_directions_run_at_the_same_time(simulator):
    """Each direction has an engine of its own."""
    down = simulator.queue(Stream(), _copy(Engine(), 10, 0))
    up = simulator.queue(Stream(), _copy(Engine(), 10, 0))
    simulator.advance(100)
    assert ([0], [0]) == (down.starts_ns, up.starts_ns)


def test_a_stream_that_waits_behind_a_closed_latch_fails_by_timeout(simulator):
    """Nothing opens the latch, so the event is never done and the wait for the second stream fails."""
    simulator.queue(first := Stream(), Op("latch", 0, (0,)))
    event = simulator.queue(first, _event())
    simulator.queue(second := Stream(), _wait(event, 6))
    behind = simulator.queue(second, _kernels(10, 0))
    with pytest.raises(ScenarioFailed, match="the fence did not end within 1 s"):
        simulator.block_until(lambda: behind.end_ns is not None, 1_000_000_000, "the fence")


def test_a_latch_opened_before_the_stream_comes_to_it_holds_nothing(simulator):
    """Opened at 3 while a kernel runs until 10, it lets the next kernel start at 10."""
    stream = Stream()
    simulator.queue(stream, _kernels(10, 0))
    latch = simulator.queue(stream, Op("latch", 0, (0,)))
    after = simulator.queue(stream, _kernels(10, 0))
    simulator.advance(3)
    simulator.end_latch(stream, latch)
    simulator.advance(100)
    assert (10, [10]) == (latch.end_ns, after.starts_ns)


def test_the_early_part_of_a_copy_happens_so_long_after_its_start(simulator):
    """A copy that runs 5-15 does its early part at 5 + 4."""
    seen = []
    op = _copy(Engine(), 10, 5)
    op.early = (4, lambda: seen.append("early"))
    simulator.queue(Stream(), op)
    simulator.advance(8)
    assert [] == seen
    simulator.advance(1)
    assert (["early"], None) == (seen, op.end_ns)


def test_blocking_returns_how_long_it_took(simulator):
    """Blocked at 2 for work that ends at 10: 8."""
    op = simulator.queue(Stream(), _kernels(10, 0))
    simulator.advance(2)
    assert 8 == simulator.block_until(lambda: op.end_ns is not None, 100, "the work")
