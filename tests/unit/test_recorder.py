# ruff: noqa: SIM300 - the expected value stands first
"""fdprof.recorder with a clock that stands still until it is set."""

from types import SimpleNamespace

import pytest

from fdprof.backends.protocol import tensor_spec
from fdprof.model import KERNELS, READS, CallKind, CallSite, Memory, Table
from fdprof.recorder import RecordedDevice, Recorder

NO_KERNELS, NO_READS = Table.of_rows(KERNELS, []), Table.of_rows(READS, [])
TOKENS, FLAG = tensor_spec("sampled_token_ids", 2), tensor_spec("not_need_stop", 2)


@pytest.fixture
def clock(build):
    return build.FakeClock()


@pytest.fixture
def recorder(clock):
    return Recorder(clock, clock)


@pytest.fixture
def range_at(recorder, clock):
    """Record a range from one time to another."""

    def record(name, start, end):
        clock.now = start
        with recorder.range(name):
            clock.now = end

    return record


@pytest.fixture
def step_at(recorder, clock):
    """Record an empty step from one time to another."""

    def record(k, start, end):
        clock.now = start
        recorder.begin_step(k)
        clock.now = end
        recorder.end_step()

    return record


def _rows(table):
    return list(zip(*(table[name].tolist() for name in table.columns), strict=True))


def test_steps_are_recorded_with_start_and_end(recorder, step_at):
    """Two steps, 0-90 and 100-190."""
    step_at(0, 0, 90)
    step_at(1, 100, 190)
    log = recorder.log(NO_KERNELS, NO_READS)
    assert ([0, 100], [90, 190]) == (log.step_starts_ns.tolist(), log.step_ends_ns.tolist())


def test_a_range_belongs_to_the_window_it_started_in(recorder, step_at, range_at):
    """A window runs from a step's start to the next step's start, the first ns included."""
    step_at(0, 0, 90)
    range_at("in the step", 10, 20)
    range_at("between the steps", 95, 97)
    range_at("across the start", 99, 130)
    step_at(1, 100, 190)
    range_at("at the start", 100, 110)
    log = recorder.log(NO_KERNELS, NO_READS)
    assert ("in the step", "between the steps", "across the start", "at the start") == log.range_names
    assert [(0, 10, 20, 0), (1, 95, 97, 0), (2, 99, 130, 0), (3, 100, 110, 1)] == _rows(log.ranges)


def test_a_call_belongs_to_the_window_it_started_in(recorder, build, clock, step_at):
    """A launch of 7 ns that starts at 95 is step 0's, though step 1 starts at 100."""
    device = RecordedDevice(build.FakeDevice(clock), recorder)
    step_at(0, 0, 90)
    clock.now = 95
    device.forward()
    step_at(1, 100, 190)
    clock.now = 100
    device.update()
    log = recorder.log(NO_KERNELS, NO_READS)
    named = [(log.call_sites[call].name, start, end, step) for call, start, end, step in _rows(log.calls)]
    assert [("forward", 95, 102, 0), ("update", 100, 107, 1)] == named


def test_an_exception_inside_a_range_still_closes_it(recorder, clock, step_at):
    """The range ends where the exception passed, and the exception goes on."""
    step_at(0, 0, 90)
    clock.now = 10
    with pytest.raises(RuntimeError, match="inside"), recorder.range("broken"):
        clock.now = 15
        raise RuntimeError("inside")
    assert [(0, 10, 15, 0)] == _rows(recorder.log(NO_KERNELS, NO_READS).ranges)


def test_a_fence_that_fails_still_closes_its_range(recorder, build, clock, step_at):
    """A wait that raises leaves the fence's range of 7 ns and no call."""
    device = RecordedDevice(build.FakeDevice(clock, fails="wait"), recorder)
    step_at(0, 0, 90)
    clock.now = 20
    with pytest.raises(RuntimeError, match="wait"):
        device.wait("event")
    log = recorder.log(NO_KERNELS, NO_READS)
    assert ("fence",) == log.range_names
    assert [(0, 20, 27, 0)] == _rows(log.ranges)
    assert 0 == len(log.calls)


def test_a_range_of_a_name_and_detail_is_one_object_with_one_index(recorder, range_at, step_at):
    """The detail follows a colon; the same name gives the same range again."""
    assert recorder.range("host", "schedule") is recorder.range("host", "schedule")
    assert recorder.range("host", "schedule") is not recorder.range("host", "save_output")
    assert ("host:schedule", "host:save_output") == recorder.log(NO_KERNELS, NO_READS).range_names


def test_device_calls_are_recorded_with_kind_and_tensor(recorder, build, clock, step_at):
    """Each call is one row of 7 ns; copies of one tensor share a call site, and a fence is also a range.

    A copy to pageable memory is one that blocks, whatever it is called.
    """
    device = RecordedDevice(build.FakeDevice(clock), recorder)
    step_at(0, 0, 0)
    pinned, pageable = (SimpleNamespace(memory=memory) for memory in (Memory.PINNED, Memory.PAGEABLE))
    device.copy(TOKENS, pinned)
    device.copy(FLAG, pageable)
    device.copy(TOKENS, pinned)
    device.record("event")
    device.wait("event")
    device.synchronize()
    assert "fetched not_need_stop" == device.fetch(FLAG)
    log = recorder.log(NO_KERNELS, NO_READS)
    tokens = CallSite("copy", CallKind.COPY, "sampled_token_ids")
    assert [
        tokens,
        CallSite("copy", CallKind.BLOCKING_COPY, "not_need_stop"),
        tokens,
        CallSite("record", CallKind.RECORD, ""),
        CallSite("wait", CallKind.WAIT, ""),
        CallSite("synchronize", CallKind.WAIT, ""),
        CallSite("fetch", CallKind.BLOCKING_COPY, "not_need_stop"),
    ] == [log.call_sites[call] for call in log.calls["call"]]
    assert len(set(log.call_sites)) == len(log.call_sites)
    assert [0, 7, 14, 21, 28, 35, 42] == log.calls["start_ns"].tolist()
    assert [7, 14, 21, 28, 35, 42, 49] == log.calls["end_ns"].tolist()
    assert [(0, 28, 35, 0), (0, 35, 42, 0)] == _rows(log.ranges)


def test_a_recorder_that_recorded_nothing_gives_empty_tables(recorder):
    """No steps, no calls, no ranges: empty, not an error."""
    log = recorder.log(NO_KERNELS, NO_READS)
    assert (0, 0, 0) == (len(log.calls), len(log.ranges), len(log.step_starts_ns))
