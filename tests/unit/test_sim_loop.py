# ruff: noqa: SIM300 - the expected value stands first
"""The simulator's calls one by one, worked out by hand from the round costs below, exact in ns; and its values.

Each call costs 10 of the loop's own before anything else.  With one kernel of 1,000 a step:
  forward: call 10 + 50 + 20 -> 80; on an idle device the kernel starts at 10 + 50 + 600 and runs 660-1,660
  update: call 10 + 50 + 20 -> 160; it runs 1,760-2,060
"""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fdprof.backends._decode_state import DecodeState
from fdprof.backends.protocol import LoopPlan, tensor_spec
from fdprof.backends.sim import SimBackend
from fdprof.errors import ScenarioFailed
from fdprof.model import Direction, Group, Launch, Memory, Producer, TensorSpec, WaitStyle
from fdprof.profiles.profile import CardCosts, DeviceProfile, HostCosts, load_profile
from fdprof.tokens import INSERT_TASK, Reference, StreamSpec, sent_arrays

CARD = CardCosts(
    kernel_start_ns=600,
    kernel_gap_ns=100,
    kernel_overhead_ns=0,
    prepare_ns=200,
    update_ns=300,
    graph_start_ns=700,
    graph_node_gap_ns=40,
    stream_wait_ns=120,
    kernel_to_copy_ns=500,
    copy_to_copy_ns=100,
    copy_to_kernel_ns=300,
    copy_start_ns=200,
    copy_floor_ns=150,
    h2d_floor_ns=160,
    copy_bytes_per_us=1_000_000,
    publish_ns=60,
    publish_visible_ns=80,
    wake_ns=250,
    wake_poll_ns=270,
    wake_yield_ns=400,
    wake_blocking=((1000, 2000, 500), (11_000, 4000, 100)),
    staging_floor_ns=240,
    staging_bytes_per_us=1_000_000,
    launch_queue_depth=1024,
)
HOST = HostCosts(
    launch_call_ns=50,
    kernel_launch_ns=20,
    graph_launch_ns=90,
    copy_call_ns=1000,
    upload_call_ns=1100,
    fetch_before_ns=3000,
    fetch_after_ns=2000,
    store_before_ns=2500,
    store_after_ns=1500,
    allocate_pinned_ns=900,
    allocate_bytes_per_us=1_000_000,
    release_ns=0,
    cold_ns=0,
    record_ns=70,
    wait_call_ns=50,
    poll_call_ns=40,
    read_flag_ns=30,
    read_array_ns=150,
    write_flag_ns=25,
    write_array_ns=130,
    read_bytes_per_us=1_000_000,
    work_call_ns=10,
    between_calls_ns=10,
)
ROWS, STEPS = 4, 40
TOKENS, FLAG = tensor_spec("sampled_token_ids", ROWS), tensor_spec("not_need_stop", ROWS)
OUTPUTS = Group("outputs", (TOKENS, FLAG))
INBOX = TensorSpec("block_table", (6,), "int32")
SENT = Group("sent", (TensorSpec(INSERT_TASK, (4,), "int64"), INBOX), Direction.TO_DEVICE)
SPEC = StreamSpec(seed=3, sequences=ROWS, mean_length=5, last_step=STEPS - 1)


@pytest.fixture
def open_sim(monkeypatch):
    """Open a backend of the round costs and a loop on it."""

    def make(kernels=1, kernel_ns=1000, card=CARD, seed=None, groups=(OUTPUTS, SENT), **plan):
        profile = DeviceProfile("round", "made-up GPU", "made-up framework", "this file", card, HOST)
        monkeypatch.setattr("fdprof.backends.sim.load_profile", lambda name: profile)
        backend = SimBackend(30)
        backend.disturb(seed)
        times = np.full(STEPS, kernel_ns, dtype=np.int64)
        return backend, backend.open_loop(LoopPlan(SPEC, groups, STEPS, kernels, times, **plan))

    return make


def _token(step):
    """Return the tokens that every row must have at a step."""
    return Reference(SPEC, (OUTPUTS,), STEPS).tokens[step].tolist()


def test_each_kernel_of_a_step_runs_as_long_as_the_plan_says(monkeypatch, open_sim):
    """Two kernels of 100 in step 0 and of 300 in step 1."""
    backend, _ = open_sim()
    plan = LoopPlan(SPEC, (OUTPUTS,), STEPS, 2, np.array([100, 300] * (STEPS // 2)))
    loop = backend.open_loop(plan)
    for _ in range(2):
        loop.forward()
        loop.update()
    durations = np.diff(loop.stamps()[:2], axis=2)[:, :, 0]
    assert [[100, 100, 300, 0], [300, 300, 300, 0]] == durations.tolist()


def test_prepare_comes_first_and_is_stamped_last(open_sim):
    """Prepare runs 660-860, the forward kernel behind it, and their stamps stand in the order of the protocol."""
    # kernel 860 + 100 = 960-1,960; update 2,060-2,360
    _, loop = open_sim()
    loop.prepare()
    loop.forward()
    loop.update()
    assert [[960, 1960], [2060, 2360], [660, 860]] == loop.stamps()[0].tolist()
    assert 0 == loop.stamps()[1:].sum()


def test_a_step_beyond_the_stamps_fails(open_sim):
    """Stamps are kept for 40 steps."""
    _, loop = open_sim()
    for _ in range(STEPS):
        loop.update()
    for launch in (loop.prepare, loop.forward, loop.update):
        with pytest.raises(ScenarioFailed, match="step 40 was launched, but stamps are kept for 40 steps"):
            launch()


def test_a_graph_is_one_call_with_small_gaps(open_sim):
    """Three kernels cost the host 90 in all and stand 40 apart."""
    # call 10 + 90 -> 100; first kernel at 10 + 700: 710-1,710, 1,750-2,750, 2,790-3,790
    # update call -> 180; it starts one ordinary gap later: 3,890-4,190
    backend, loop = open_sim(kernels=3, launch=Launch.GRAPH)
    loop.forward()
    assert 100 == backend.clock_ns()
    loop.update()
    assert 180 == backend.clock_ns()
    expected = [[710, 1710], [1750, 2750], [2790, 3790], [3890, 4190], [0, 0]]
    assert expected == loop.stamps()[0].tolist()


def test_a_graph_takes_one_place_in_the_launch_queue(open_sim):
    """With room for two launches, a graph of three kernels and the update do not block."""
    backend, loop = open_sim(kernels=3, launch=Launch.GRAPH, card=dataclasses.replace(CARD, launch_queue_depth=2))
    loop.forward()
    loop.update()
    assert 180 == backend.clock_ns()


def test_a_copy_on_a_side_stream_leaves_no_gap_on_the_compute_stream(open_sim):
    """Copy stream and event: the next forward follows the update after a kernel's gap, beside the copy."""
    # record -> 240, done with the update at 2,060; stream_wait -> 320; copy call -> 1,330
    # copy: 2,060 + 120 = 2,180-2,330; forward call -> 1,410: 2,060 + 100 = 2,160-3,160
    # record -> 1,490; wait call -> 1,550, until 2,330, wake 250 -> 2,580
    backend, loop = open_sim()
    side, made, done = loop.stream(), loop.event(), loop.event()
    buffer = loop.host_buffer(TOKENS, Memory.PINNED)
    loop.forward()
    loop.update()
    loop.record(made)
    loop.stream_wait(made, side)
    loop.copy(TOKENS, buffer, side)
    loop.forward()
    assert 1410 == backend.clock_ns()
    loop.record(done, side)
    loop.wait(done)
    assert 2580 == backend.clock_ns()
    assert _token(0) == loop.read(buffer).tolist()
    assert [2160, 3160] == loop.stamps()[1, 0].tolist()


def test_the_compute_stream_can_wait_for_a_side_stream(open_sim):
    """A kernel that must not overtake a copy ending at 2,330 starts at 2,330 + 120."""
    _, loop = open_sim()
    side, made, done = loop.stream(), loop.event(), loop.event()
    buffer = loop.host_buffer(TOKENS, Memory.PINNED)
    loop.forward()
    loop.update()
    loop.record(made)
    loop.stream_wait(made, side)
    loop.copy(TOKENS, buffer, side)
    loop.record(done, side)
    loop.stream_wait(done)
    loop.forward()
    assert [2450, 3450] == loop.stamps()[1, 0].tolist()


def test_the_update_can_run_on_a_side_stream(open_sim):
    """On an idle side stream it starts when its own launch arrives, while the forward kernel still runs."""
    # launched at 90: 90 + 50 + 600 = 740-1,040; the stamps wait for both streams
    backend, loop = open_sim()
    loop.forward()
    loop.update(stream=loop.stream())
    assert [[660, 1660], [740, 1040]] == loop.stamps()[0, :2].tolist()
    assert 1660 == backend.clock_ns()


@pytest.mark.parametrize(("expected", "on_side_stream"), [(10, True), (19, False)])
def test_a_fetch_waits_for_the_compute_stream_and_for_no_other(open_sim, expected, on_side_stream):
    """Behind 20 updates on a side stream it returns what is there when it runs; on the compute stream, the last."""
    # Updates run 660-960 and on every 400; 20 calls end at 1,600, host work at 1,700.  fetch call -> 4,710; on the idle
    # compute stream the copy runs 4,910-5,060: the update of step 10 has ended at 960 + 10 x 400 = 4,960.
    backend, loop = open_sim()
    stream = loop.stream() if on_side_stream else None
    for _ in range(20):
        loop.update(stream=stream)
    backend.host_work(90)
    assert _token(expected) == loop.read(loop.fetch(TOKENS)).tolist()


def test_closing_waits_for_all_streams(open_sim):
    """Work of a side stream that ends at 1,040 is over after close."""
    backend, loop = open_sim()
    loop.update(stream=loop.stream())
    loop.close()
    assert 660 + 300 == backend.clock_ns()


def test_closing_after_a_failed_wait_does_not_wait_again(open_sim):
    """A latch that stays closed fails the wait after 30 s, and close leaves the clock there."""
    backend, loop = open_sim()
    loop.hold()
    loop.forward()
    with pytest.raises(ScenarioFailed, match="the stream synchronisation did not end within 30 s"):
        loop.synchronize()
    now = backend.clock_ns()
    loop.close()
    assert now == backend.clock_ns()


@pytest.mark.parametrize("call", ["wait", "stream_wait"])
def test_an_event_that_was_never_recorded_cannot_be_waited_for(open_sim, call):
    """CUDA would let such a wait pass; a loop that relies on it has lost its fence."""
    _, loop = open_sim()
    with pytest.raises(ScenarioFailed, match="never recorded"):
        getattr(loop, call)(loop.event())


def test_published_values_and_their_number_show_together(open_sim):
    """The update runs 60 longer; its values are in mapped memory 80 after its end, not 1 ns before."""
    # update 1,760-2,120, visible at 2,200.  A read takes 10 + 150 before it looks, host work 10 more than asked for:
    # 160 + 1,879 + 160 = 2,199; the next look is 160 later.
    backend, loop = open_sim()
    slots = [[loop.host_buffer(tensor, Memory.MAPPED) for tensor in OUTPUTS.tensors]]
    loop.publish(OUTPUTS, slots)
    loop.forward()
    loop.update()
    backend.host_work(1879 - 10)
    assert [[0]] * ROWS == loop.read(slots[0][0]).tolist()
    assert 2199 == backend.clock_ns()
    assert _token(0) == loop.read(slots[0][0]).tolist()
    assert [1760, 2120] == loop.stamps()[0, 1].tolist()


def test_a_poll_returns_when_the_number_is_there(open_sim):
    """Blocked from 170 until 2,200, then 40 for the call; a poll for what is there takes 10 + 40."""
    backend, loop = open_sim()
    slots = [[loop.host_buffer(tensor, Memory.MAPPED) for tensor in OUTPUTS.tensors] for _ in range(2)]
    publication = loop.publish(OUTPUTS, slots)
    loop.forward()
    loop.update()
    loop.poll(publication, 0)
    assert 2240 == backend.clock_ns()
    loop.poll(publication, 0)
    assert 2290 == backend.clock_ns()
    loop.update()
    loop.poll(publication, 1)
    got = [loop.read(slot[0]).tolist() for slot in slots]
    assert [_token(0), _token(1)] == got


def test_a_group_of_prepare_is_published_by_prepare(open_sim):
    """Prepare runs 660-920 instead of 660-860, and what it made shows at 1,000."""
    made = Group("lens", (tensor_spec("seq_lens_this_time", ROWS),), made_by=Producer.PREPARE)
    backend, loop = open_sim(groups=(made,))
    slots = [[loop.host_buffer(made.tensors[0], Memory.MAPPED)]]
    publication = loop.publish(made, slots)
    loop.prepare()
    loop.poll(publication, 0)
    assert 1000 + 40 == backend.clock_ns()
    assert [[1]] * ROWS == loop.read(slots[0][0]).tolist()


def test_a_sequence_number_cannot_be_slept_for(open_sim):
    """In style blocking, a poll fails and says why."""
    _, loop = open_sim(wait=WaitStyle.BLOCKING)
    publication = loop.publish(OUTPUTS, [[loop.host_buffer(tensor, Memory.MAPPED) for tensor in OUTPUTS.tensors]])
    with pytest.raises(ScenarioFailed, match="no event to sleep on"):
        loop.poll(publication, 0)


def test_a_poll_for_what_is_never_published_fails(open_sim):
    """Nothing was launched."""
    _, loop = open_sim()
    publication = loop.publish(OUTPUTS, [[loop.host_buffer(tensor, Memory.MAPPED) for tensor in OUTPUTS.tensors]])
    with pytest.raises(ScenarioFailed, match="the publication of outputs did not end within 30 s"):
        loop.poll(publication, 0)


@pytest.mark.parametrize(("wake_ns", "style"), [(250, "spin"), (270, "poll"), (400, "yield")])
def test_a_thread_that_does_not_sleep_uses_the_cpu_all_the_time(open_sim, wake_ns, style):
    """It wakes after its style's time from 2,060, and thread time is wall time."""
    backend, loop = open_sim(wait=WaitStyle(style))
    event = loop.event()
    loop.forward()
    loop.update()
    loop.record(event)
    loop.wait(event)
    assert 2060 + wake_ns == backend.clock_ns() == backend.thread_cpu_ns()


@pytest.mark.parametrize(
    ("clock_ns", "cpu_ns", "kernel_ns"),
    [
        # The wait call ends at 300; kernel and update end at 1,060 + kernel_ns.  Wake-up: 2,000 at 50 % after 1,000,
        # 4,000 at 10 % after 11,000.
        (3060, 1680, 0),  # waited 760, wakes in 2,000: of 2,760 half is CPU, 300 + 1,380
        (9300, 3000, 5240),  # waited 6,000, half-way: 3,000 and 30 %; 300 + 9,000 x 0.3
        (25_060, 2776, 20_000),  # waited 20,760: 4,000 and 10 %; 300 + 2,476
    ],
)
def test_a_thread_that_sleeps_wakes_late_and_saves_cpu(open_sim, clock_ns, cpu_ns, kernel_ns):
    """The longer it slept, the later it wakes and the smaller its share of CPU."""
    backend, loop = open_sim(kernel_ns=kernel_ns, wait=WaitStyle.BLOCKING)
    event = loop.event()
    loop.forward()
    loop.update()
    loop.record(event)
    loop.wait(event)
    assert (clock_ns, cpu_ns) == (backend.clock_ns(), backend.thread_cpu_ns())


def test_synchronize_spins_in_every_style(open_sim):
    """In style blocking it wakes 250 after the update's end, with all of it CPU."""
    backend, loop = open_sim(wait=WaitStyle.BLOCKING)
    loop.forward()
    loop.update()
    loop.synchronize()
    assert 2310 == backend.clock_ns() == backend.thread_cpu_ns()


def test_an_upload_reads_its_source_when_it_runs(open_sim):
    """A buffer that is rewritten before its upload has run sends the new values."""
    # write 10 + 130 -> 140; upload call 10 + 1,100 -> 1,250, its copy runs 1,450-1,610; the second write is at 1,390
    backend, loop = open_sim()
    source = loop.host_buffer(INBOX, Memory.PINNED)
    loop.write(source, np.full(6, 7))
    assert 140 == backend.clock_ns()
    loop.upload(INBOX, source)
    assert 1250 == backend.clock_ns()
    loop.write(source, np.full(6, 8))
    assert 1390 == backend.clock_ns()
    assert [8] * 6 == loop.read(loop.fetch(INBOX)).tolist()


def test_an_upload_delays_the_kernels_behind_it(open_sim):
    """Copy to kernel takes 300 on the compute stream."""
    # upload call -> 1,110, copy 1,310-1,470; the kernel is issued at 1,120 + 650 = 1,770, just as 1,470 + 300
    _, loop = open_sim()
    loop.upload(INBOX, loop.host_buffer(INBOX, Memory.PINNED))
    loop.forward()
    assert [1770, 2770] == loop.stamps()[0, 0].tolist()


@pytest.mark.parametrize("call", ["store", "upload"])
def test_a_blocking_upload_returns_when_the_values_are_there(open_sim, call):
    """Stores block, and so do uploads from pageable memory."""
    # 10 + 2,500; copy 2,710-2,870; wake 250 + after 1,500 -> 4,620
    backend, loop = open_sim()
    source = loop.host_buffer(INBOX, Memory.PINNED if call == "store" else Memory.PAGEABLE)
    getattr(loop, call)(INBOX, source)
    assert 4620 == backend.clock_ns()


def test_buffers_made_before_the_loop_cost_nothing_and_those_made_in_it_do(open_sim):
    """10 + 900 for page-locked memory, 10 for pageable memory."""
    backend, loop = open_sim()
    loop.host_buffer(TOKENS, Memory.PINNED)
    assert 0 == backend.clock_ns()
    loop.prepare()
    loop.host_buffer(TOKENS, Memory.PINNED)
    assert 80 + 910 == backend.clock_ns()
    loop.host_buffer(TOKENS, Memory.PAGEABLE)
    assert 80 + 920 == backend.clock_ns()


def test_released_memory_is_handed_out_again_as_it_is(open_sim):
    """The next buffer of its shape, dtype and memory holds the old values, and the old handle sees the new ones."""
    _, loop = open_sim()
    old = loop.host_buffer(INBOX, Memory.PINNED)
    loop.write(old, np.arange(6))
    loop.release_buffer(old)
    assert [0] * 6 == loop.read(loop.host_buffer(INBOX, Memory.MAPPED)).tolist()
    new = loop.host_buffer(INBOX, Memory.PINNED)
    assert [0, 1, 2, 3, 4, 5] == loop.read(new).tolist()
    loop.write(new, np.full(6, 9))
    assert [9] * 6 == loop.read(old).tolist()
    assert [0] * 6 == loop.read(loop.host_buffer(INBOX, Memory.PINNED)).tolist()


def test_an_indexed_buffer_lives_on_the_device_and_its_reads_block(open_sim):
    """After index, a copy into it stays on the device and a read is one more blocking copy."""
    # index: from 160, 10 + 2,500 -> 2,670; the move starts 200 later, 2,870-3,030; wake 250 + after 1,500 -> 4,780
    # copy: 10 + 1,000 -> 5,790
    # read: 10 + 3,000 -> 8,800; copy 9,000-9,150; staging 240 + wake 250 + after 2,000 -> 11,640
    backend, loop = open_sim()
    buffer = loop.host_buffer(TOKENS, Memory.PINNED)
    assert Memory.PINNED is loop.memory_of(buffer)
    loop.forward()
    loop.update()
    loop.index(buffer)
    assert (4780, None) == (backend.clock_ns(), loop.memory_of(buffer))
    loop.copy(TOKENS, buffer)
    assert _token(0) == loop.read(buffer).tolist()
    assert 11_640 == backend.clock_ns()


def test_indexing_takes_the_values_along(open_sim):
    """What the buffer held is what a read returns afterwards."""
    _, loop = open_sim()
    buffer = loop.host_buffer(FLAG, Memory.PINNED)
    loop.index(buffer)
    assert loop.read(buffer) is True


def test_poison_takes_no_time_and_is_counted_by_element(open_sim):
    """A poisoned flag reads as True; an element with one other byte is not poisoned."""
    backend, loop = open_sim()
    flag, tokens = loop.host_buffer(FLAG, Memory.PINNED), loop.host_buffer(TOKENS, Memory.PINNED)
    assert (0, 0) == (loop.poisoned(flag), loop.poisoned(tokens))
    loop.poison(flag)
    loop.poison(tokens)
    assert (1, ROWS) == (loop.poisoned(flag), loop.poisoned(tokens))
    assert 0 == backend.clock_ns()
    assert loop.read(flag) is True
    values = loop.read(tokens)
    values[1] += 1
    loop.write(tokens, values)
    assert ROWS - 1 == loop.poisoned(tokens)


def test_reading_and_writing_beyond_a_page_takes_longer(open_sim):
    """2,000 bytes beyond the first 4,096 take 2 more at 1,000 bytes a ns."""
    backend, loop = open_sim()
    buffer = loop.host_buffer(TensorSpec("big", (6096,), "bool"), Memory.PINNED)
    loop.read(buffer)
    assert 10 + 150 + 2 == backend.clock_ns()
    loop.write(buffer, np.ones(6096, dtype=np.bool_))
    assert 162 + 10 + 130 + 2 == backend.clock_ns()


def test_writing_a_flag_costs_less_than_writing_an_array(open_sim):
    """10 + 25."""
    backend, loop = open_sim()
    flag = loop.host_buffer(FLAG, Memory.PINNED)
    loop.write(flag, np.array([False]))
    assert 35 == backend.clock_ns()
    assert loop.read(flag) is False


# The adversary.


def _fenced(loop, backend):
    """Return the tokens read behind a fence in each of 12 steps, and the clock after each."""
    event, buffer = loop.event(), loop.host_buffer(TOKENS, Memory.PINNED)
    seen, times = [], []
    for _ in range(12):
        loop.forward()
        loop.update()
        loop.copy(TOKENS, buffer)
        loop.record(event)
        loop.wait(event)
        seen.append(loop.read(buffer).tolist())
        times.append(backend.clock_ns())
    return seen, times


def test_an_adversarys_loop_follows_from_its_seed(open_sim):
    """Two loops of one seed have equal times, even on one backend; another seed and none at all differ from them."""
    times = {}
    for name, seed in (("first", 1), ("again", 1), ("other", 2), ("none", None)):
        backend, loop = open_sim(seed=seed)
        times[name] = _fenced(loop, backend)[1]
    assert times["first"] == times["again"]
    assert 3 == len({tuple(found) for found in times.values()})
    backend, _ = open_sim()
    start = backend.clock_ns()
    backend.disturb(1)
    plan = LoopPlan(SPEC, (OUTPUTS,), STEPS, 1, np.full(STEPS, 1000, dtype=np.int64))
    assert times["first"] == [time - start for time in _fenced(backend.open_loop(plan), backend)[1]]


@pytest.mark.parametrize("seed", range(10))
def test_fenced_values_are_right_under_an_adversary(open_sim, seed):
    """However late and torn the copies are, behind their event the values are the step's."""
    backend, loop = open_sim(seed=seed)
    assert [_token(step) for step in range(12)] == _fenced(loop, backend)[0]


@pytest.mark.parametrize("seed", range(10))
def test_polled_values_are_right_under_an_adversary(open_sim, seed):
    """Published values never show later than their number."""
    _, loop = open_sim(seed=seed)
    slots = [[loop.host_buffer(tensor, Memory.MAPPED) for tensor in OUTPUTS.tensors]]
    publication = loop.publish(OUTPUTS, slots)
    for step in range(12):
        loop.forward()
        loop.update()
        loop.poll(publication, step)
        assert _token(step) == loop.read(slots[0][0]).tolist()


@pytest.mark.parametrize("seed", range(10))
def test_published_steps_show_in_order_under_an_adversary(open_sim, seed):
    """When the last of 12 numbers is there, so are the values of all 12 steps, each in its own slot."""
    _, loop = open_sim(seed=seed)
    slots = [[loop.host_buffer(tensor, Memory.MAPPED) for tensor in OUTPUTS.tensors] for _ in range(12)]
    publication = loop.publish(OUTPUTS, slots)
    for _ in range(12):
        loop.update()
    loop.poll(publication, 11)
    assert [_token(step) for step in range(12)] == [loop.read(slot[0]).tolist() for slot in slots]


def test_an_adversary_tears_what_is_read_without_a_fence(open_sim):
    """Under some seed a read finds part of a copy: neither the initial values nor the step's."""
    torn = 0
    for seed in range(20):
        backend, loop = open_sim(seed=seed)
        buffer = loop.host_buffer(TOKENS, Memory.PINNED)
        loop.update()
        loop.copy(TOKENS, buffer)
        for _ in range(20):
            backend.host_work(200)
            torn += loop.read(buffer).tolist() not in ([[0]] * ROWS, _token(0))
    assert torn > 0


def test_an_adversary_tears_what_is_rewritten_during_an_upload(open_sim):
    """Under some seed the device gets parts of two writes."""
    found = set()
    for seed in range(20):
        backend, loop = open_sim(seed=seed)
        source = loop.host_buffer(INBOX, Memory.PINNED)
        loop.write(source, np.full(6, -1))
        loop.upload(INBOX, source)
        backend.host_work(1000)
        loop.write(source, np.zeros(6))
        loop.synchronize()
        found.add(tuple(loop.read(loop.fetch(INBOX)).tolist()))
    assert any(0 < np.count_nonzero(values) < 6 for values in found)


# The values.

UPDATED = ("sampled_token_ids", "not_need_stop", "accept_tokens", "accept_num", "seq_lens_decoder", "prompt_lens")
PREPARED = ("seq_lens_this_time", "is_block_step", "real_output_token_num")


def _all_groups(spec):
    """Return groups of every tensor that has a meaning, with a payload each, and one to the device."""

    def group(name, tensors, made_by, dtype):
        known = [tensor_spec(tensor, spec.sequences, spec.draft_tokens) for tensor in tensors]
        return Group(name, (*known, TensorSpec(f"{name}_payload", (2, 3), dtype)), made_by=made_by)

    return (
        group("prepared", PREPARED, Producer.PREPARE, "float32"),
        group("updated", UPDATED, Producer.UPDATE, "int32"),
        SENT,
    )


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**63 - 1),
    sequences=st.integers(1, 9),
    mean_length=st.integers(1, 12),
    last_step=st.integers(0, 40),
    shape=st.sampled_from([(0, 0), (1, 0), (3, 0), (7, 0), (0, 1), (0, 3)]),
    insert_every=st.sampled_from([0, 1, 2, 5]),
)
def test_the_state_makes_what_the_reference_says(seed, sequences, mean_length, last_step, shape, insert_every):
    """Step by step, every tensor equals the closed form, with pauses for KV blocks or drafts, and insertions."""
    kv_block_tokens, draft_tokens = shape
    spec = StreamSpec(
        seed=seed,
        sequences=sequences,
        mean_length=mean_length,
        last_step=last_step,
        kv_block_tokens=kv_block_tokens,
        draft_tokens=draft_tokens,
        insert_every=insert_every,
    )
    groups, steps = _all_groups(spec), last_step + 4
    prepared, updated, sent = groups
    reference = Reference(spec, groups, steps)
    state = DecodeState(LoopPlan(spec, groups, steps, 1, np.zeros(steps, dtype=np.int64)))

    def check(group, step):
        for tensor in group.tensors:
            expected = reference.stream(tensor)[step].tolist()
            assert expected == state.tensors[tensor.name].reshape(-1).tolist(), (tensor.name, step)

    for step in range(steps):
        for tensor, array in zip(sent.tensors, sent_arrays(spec, sent, step), strict=True):
            state.tensors[tensor.name][...] = array
        state.prepare()
        check(prepared, step)
        state.advance()
        check(updated, step)


def test_an_insertion_that_was_sent_for_another_step_is_not_taken():
    """Step, and a row from 0 on, must fit: with nothing sent, or last step's task, the batch stays as it was."""
    spec = dataclasses.replace(SPEC, insert_every=3)
    state = DecodeState(LoopPlan(spec, (OUTPUTS, SENT), STEPS, 1, np.zeros(STEPS, dtype=np.int64)))
    got = []
    for step in range(STEPS):
        if step % 3 == 1:
            state.tensors[INSERT_TASK][...] = (step - 1, 0, 1000, 0)
        state.prepare()
        state.advance()
        got.append(state.tensors["sampled_token_ids"].tolist())
    assert [_token(step) for step in range(STEPS)] == got


def test_rows_that_were_not_launched_for_stay_as_they_were():
    """Launched for 3 of 4 rows, the last row is left out of step 1; all rows' requests last longer than this."""
    spec = dataclasses.replace(SPEC, mean_length=10_000)
    groups = _all_groups(spec)
    expected = Reference(spec, groups, STEPS)
    state = DecodeState(LoopPlan(spec, groups, STEPS, 1, np.zeros(STEPS, dtype=np.int64)))
    tokens, lengths = [], []
    for launch_tokens in (4, 3, 99):
        state.advance(launch_tokens)
        tokens.append(state.tensors["sampled_token_ids"][:, 0].tolist())
        lengths.append(state.tensors["seq_lens_decoder"][:, 0].tolist())
    right = expected.tokens[:, :, 0].tolist()
    right_lengths = expected.stream(tensor_spec("seq_lens_decoder", ROWS)).tolist()
    assert right[0] == tokens[0]
    assert [*right[1][:3], right[0][3]] == tokens[1]
    assert [*right_lengths[1][:3], right_lengths[0][3]] == lengths[1]
    assert [*right_lengths[2][:3], right_lengths[1][3]] == lengths[2]
    assert right[2][:3] == tokens[2][:3]
    assert 2 == tokens[2][3] % 8  # the row goes on from where it stood, in the step it is in


def test_the_budgets_end_stops_rows_that_were_not_computed_too():
    """Launched for no row at last_step, the state still says stop, and the step after it has no tokens."""
    spec = dataclasses.replace(SPEC, last_step=1)
    state = DecodeState(LoopPlan(spec, (OUTPUTS,), STEPS, 1, np.zeros(STEPS, dtype=np.int64)))
    state.advance()
    assert [True] == state.tensors["not_need_stop"].tolist()
    before = state.tensors["sampled_token_ids"].tolist()
    state.advance(0)
    assert ([False], before) == (state.tensors["not_need_stop"].tolist(), state.tensors["sampled_token_ids"].tolist())
    state.advance()
    assert [[-1]] * ROWS == state.tensors["sampled_token_ids"].tolist()


def test_only_the_plans_tensors_are_made():
    """A loop that moves tokens and flag computes nothing else."""
    state = DecodeState(LoopPlan(SPEC, (OUTPUTS,), STEPS, 1, np.zeros(STEPS, dtype=np.int64)))
    assert {"sampled_token_ids", "not_need_stop"} == state.tensors.keys()


def test_the_shipped_profile_loads_with_its_points():
    """JSON's lists arrive as tuples, in ascending order of what was waited."""
    points = load_profile("h200").card.wake_blocking
    assert ((20_000, 33_000, 110), (200_000, 60_000, 30), (2_000_000, 121_000, 10)) == points
