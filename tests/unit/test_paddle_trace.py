"""fdprof.importers.paddle_trace: a trace of paddle.profiler with all its quirks becomes a Capture."""

# ruff: noqa: SIM300
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fdprof.capture import ApiKind, CopyDirection, HostSide, RangeKind, Thread
from fdprof.errors import InputError
from fdprof.importers.kineto import IMPORTER as KINETO
from fdprof.importers.paddle_trace import IMPORTER

BASE = 1_796_010_079_703_410  # µs


def say_nothing(line):
    """The progress of a test."""


def host(name, start_us, dur, category="CudaRuntime", correlation=None, side="C++", **fields):
    args = {"start_time": f"{start_us:.3f} us", "end_time": f"{start_us + dur:.3f} us"}
    if correlation is not None:
        args["correlation id"] = correlation
    return {
        "name": f"{name}[{dur:.3f} us]",
        "pid": 868,
        "tid": f"868({side})",
        "ts": BASE + int(start_us),
        "dur": dur,
        "ph": "X",
        "cat": category,
        "args": args,
    } | fields


def device(name, start_us, dur, category="Kernel", stream=7, **args):
    return host(name, start_us, dur, category) | {
        "pid": 0,
        "tid": stream,
        "args": {"start_time": f"{start_us:.3f} us", "stream": stream} | args,
    }


@pytest.fixture
def read(tmp_path):
    """Read a trace of these events."""

    def written(events, **about):
        path = tmp_path / "trace.json"
        document = {"schemaVersion": "1.0.2", "span_indx": "0"} | about | {"traceEvents": [*events, {}]}
        path.write_text(json.dumps(document), encoding="utf-8")
        return KINETO.read(path, say_nothing)

    return written


def names(capture, table):
    return [capture.names[number] for number in table["name"]]


@pytest.fixture
def real(captures):
    return IMPORTER.read(captures / "h200" / "paddle_numpy.paddle_trace.json.gz", say_nothing)


def test_the_real_file_has_its_rows(real):
    """539 events: 161 calls, 40 kernels, 40 copies, 21 profiler steps and 20 of the user's ranges."""
    assert ("paddle_trace", "paddle.profiler schema 1.0.2", 539) == (real.source, real.tool, real.rows)
    assert (161, 80, 41) == (len(real.api), len(real.device), len(real.ranges))
    assert 0 == (real.device["api"] == -1).sum()


def test_the_real_files_names_have_no_durations(real):
    """40 cudaMemcpy, by the version that CUPTI gives."""
    assert 40 == names(real, real.api).count("cudaMemcpy_v3020")
    assert 40 == (real.api["kind"] == ApiKind.BLOCKING_COPY).sum()
    assert {"spin(long long)", "upd(long long*, bool*, long long, int)", "MEMCPY_DtoH"} == set(names(real, real.device))


def test_the_real_files_host_thread_is_one(real):
    """868(C++) and 868(Python) are the same."""
    assert (Thread(868, 868, "thread 868:MainThread"),) == real.threads


def test_the_real_files_copies_go_to_the_host_with_unknown_memory(real):
    """20 of 512 bytes and 20 of 256, on stream 7."""
    copies = real.device["direction"] == CopyDirection.TO_HOST
    assert ([256] * 20 + [512] * 20) == sorted(real.device["size_bytes"][copies].tolist())
    assert {HostSide.UNKNOWN} == set(real.device["host_side"][copies].tolist())
    assert any("pinned or pageable" in limit for limit in real.limits)
    assert any("waits are not joined" in limit for limit in real.limits)


def test_the_real_files_times_are_finer_than_ts(real):
    """The last call starts 7,545.255 µs after the first range and takes 7.657 µs."""
    assert 7_545_255 == real.api["start_ns"][-1] - real.ranges["start_ns"][0]
    assert 7_657 == real.api["end_ns"][-1] - real.api["start_ns"][-1]
    assert 1000 == real.time_error_ns


def test_a_call_by_number_is_the_call(read):
    """Runtime API 137 is cudaEventSynchronize and blocks for 3 ms."""
    call = host("Runtime API 137", 10, 1) | {"name": "Runtime API 137[3.000 ms]", "dur": 3000.0}
    capture = read([call])
    assert [ApiKind.EVENT_WAIT] == capture.api["kind"].tolist()
    assert ["Runtime API 137"] == names(capture, capture.api)
    assert 3_000_000 == capture.api["end_ns"][0] - capture.api["start_ns"][0]


@pytest.mark.parametrize(
    ("category", "kind"),
    [
        ("ProfileStep", RangeKind.MARKER),
        ("UserDefined", RangeKind.MARKER),
        ("PythonUserDefined", RangeKind.MARKER),
        ("Operator", RangeKind.OPERATOR),
        ("OperatorInner", RangeKind.OPERATOR),
        ("Forward", RangeKind.OPERATOR),
        ("Communication", RangeKind.OPERATOR),
    ],
)
def test_categories_give_the_kind_of_a_range(read, category, kind):
    """What a person marked is a marker."""
    assert [kind] == read([host("x", 0, 1, category)]).ranges["kind"].tolist()


def test_a_negative_size_is_of_more_than_2_gib(read):
    """bytes is printed with %d."""
    assert [3 << 30] == read([device("MEMCPY_HtoD", 0, 1, "Memcpy", bytes=-(1 << 30))]).device["size_bytes"].tolist()


def test_a_copy_without_a_device_is_of_the_device_in_pid(read):
    """Memcpy has no device argument."""
    capture = read([device("MEMCPY_HtoD", 0, 1, "Memcpy", bytes=4) | {"pid": 3}])
    assert [3] == [found.device for found in capture.devices]
    assert [CopyDirection.TO_DEVICE] == capture.device["direction"].tolist()


def test_a_driver_call_within_a_runtime_call_leaves_the_work_to_the_runtime_call(read):
    """Both have the correlation id; the outermost has the kernel."""
    calls = [host("cuLaunchKernel", 2, 3, correlation=5), host("cudaLaunchKernel_v7000", 1, 6, correlation=5)]
    capture = read([*calls, device("k", 9, 1, **{"correlation id": 5, "device": 0})])
    assert 2 == len(capture.api)
    assert "cudaLaunchKernel_v7000" == names(capture, capture.api)[capture.device["api"][0]]


def test_a_trace_is_used_up_to_where_its_calls_share_an_id(read):
    """Of three launches the last two, at 11 and 21 us, have id 2."""
    launches = [host("cudaLaunchKernel_v7000", at, 3, correlation=n) for at, n in ((1, 1), (11, 2), (21, 2))]
    kernels = [device("k", at, 1, **{"correlation id": n, "device": 0}) for at, n in ((5, 1), (15, 2), (25, 2))]
    capture = read([*launches, *kernels])
    assert (1, [0]) == (len(capture.api), capture.device["api"].tolist())
    assert "share their correlation ids from cudaLaunchKernel_v7000 on, 10.0 µs after" in capture.limits[-1]


def test_a_start_time_that_contradicts_ts_is_not_taken(read):
    """ts is 500 µs later than start_time says."""
    odd = host("b", 20, 1, ts=BASE + 520)
    capture = read([host("a", 0.25, 1), host("c", 10.75, 1), odd])
    assert [0, 10_500, (BASE + 520) * 1000 - int(capture.api["start_ns"][0])] == (
        capture.api["start_ns"] - capture.api["start_ns"][0]
    ).tolist()


def test_a_trace_without_start_times_has_those_of_ts(read):
    """Whole µs."""
    capture = read([host("a", 3.75, 1.5, args={})])
    assert [(BASE + 3) * 1000] == capture.api["start_ns"].tolist()
    assert [(BASE + 4) * 1000 + 500] == capture.api["end_ns"].tolist()


def test_host_calls_without_device_rows_are_said(read):
    """As in a trace of a profiler that was built without CUPTI's activities."""
    assert any("no device activity" in limit for limit in read([host("cudaLaunchKernel_v7000", 0, 1)]).limits)


def test_a_trace_of_another_profiler_is_refused(tmp_path):
    """When it is given as Paddle's."""
    path = tmp_path / "trace.json"
    path.write_text('{"schemaVersion": 1, "traceEvents": []}', encoding="utf-8")
    with pytest.raises(InputError, match=r"not of paddle\.profiler"):
        IMPORTER.read(path, say_nothing)


def test_the_start_of_a_file_tells_whose_it_is(captures):
    """By the type of schemaVersion; a file that cannot tell is decided when it is read."""
    paddle = b'{"displayTimeUnit": "ms", "schemaVersion": "1.0.2",'
    kineto = b'{"schemaVersion": 1, "deviceProperties": ['
    assert (True, False) == (IMPORTER.sniff(captures, paddle), KINETO.sniff(captures, paddle))
    assert (False, True) == (IMPORTER.sniff(captures, kineto), KINETO.sniff(captures, kineto))
    assert (False, True) == (
        IMPORTER.sniff(captures, b'{"traceEvents": ['),
        KINETO.sniff(captures, b'{"traceEvents": ['),
    )
    assert (False, False) == (IMPORTER.sniff(captures, b""), KINETO.sniff(captures, b"SQLite format 3\0"))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(st.integers(200, 9000), st.integers(0, 400)), min_size=2, max_size=12),
    offset=st.integers(0, 30_000_000),
    fraction=st.integers(0, 999),
)
def test_rows_of_one_stream_never_overlap_by_rounding(read, rows, offset, fraction):
    """Starts that went through a 32-bit float, up to 30 s into the trace, and ts cut off at the µs."""
    now, true, events = offset * 1000 + fraction, [], []
    for length, gap in rows:
        true.append((now, now + length))
        relative = float(np.float32(now / 1000))
        entry = device("k", relative, length / 1000, device=0)
        events.append(entry | {"ts": BASE + now // 1000})
        now += length + gap
    capture = read([host("first", 0, 1), *events])
    start, end = capture.device["start_ns"], capture.device["end_ns"]
    assert (end >= start).all()
    assert (start[1:] >= end[:-1]).all()
    first = int(capture.api["start_ns"][0])
    assert max(abs(found - first - right) for found, (right, _) in zip(start.tolist(), true, strict=True)) <= 2000
