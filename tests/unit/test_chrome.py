"""fdprof.importers._chrome: any bytes give whole events with exact times, or one sentence that says what is wrong."""

# ruff: noqa: SIM300
import gzip
import json

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fdprof.capture import Capture
from fdprof.errors import InputError
from fdprof.importers import _chrome
from fdprof.importers.kineto import IMPORTER as KINETO
from fdprof.importers.paddle_trace import IMPORTER as PADDLE

BOUNDED = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def say_nothing(line):
    """The progress of a test."""


def event(**fields):
    return {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 10, "dur": 2, "args": {}} | fields


@pytest.fixture
def write(tmp_path):
    """Write a trace of these events, a document or bytes, and return its path."""

    def written(content, name="trace.json"):
        if isinstance(content, list):
            content = {"traceEvents": content}
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return path

    return written


@pytest.fixture
def refused(write):
    """Return the error of reading this content."""

    def read(content):
        with pytest.raises(InputError) as caught:
            KINETO.read(write(content), say_nothing)
        assert caught.value.hint
        assert "\n" not in str(caught.value)
        return str(caught.value)

    return read


def times(path, category="kernel"):
    rows = _chrome.read_trace(path, say_nothing).rows(category)
    return list(zip(rows.start_ns.tolist(), rows.end_ns.tolist(), strict=True))


# What a file is


def test_gzip_is_known_by_its_content_whatever_the_suffix(write):
    """A gzip file named .json and a plain one named .json.gz are both read."""
    data = json.dumps([event()]).encode()
    assert [(10_000, 12_000)] == times(write(gzip.compress(data), "plain.json"))
    assert [(10_000, 12_000)] == times(write(data, "packed.json.gz"))


def test_the_top_level_may_be_a_list_or_start_with_a_byte_order_mark(write):
    """Both are traces."""
    assert [(10_000, 12_000)] == times(write(json.dumps([event()]).encode()))
    assert [(10_000, 12_000)] == times(write(b"\xef\xbb\xbf" + json.dumps([event()]).encode()))


def test_an_event_may_be_empty_or_without_tid_and_keys_come_in_any_order(write):
    """`{}` ends each file of Paddle, counters have no tid, metadata may follow the events."""
    trace = _chrome.read_trace(
        write({"traceEvents": [{}, {"ph": "C", "name": "c", "ts": 1}, event()], "cuda_runtime_version": 12080}),
        say_nothing,
    )
    assert (3, 12080, 1) == (len(trace.events), trace.about.cuda_runtime_version, len(trace.rows("kernel").events))


def test_categories_are_the_same_in_any_capitalisation(write):
    """Kernel of 2021 is kernel of 2024."""
    assert 2 == len(times(write([event(cat="Kernel"), event(cat="kernel")])))


# Times


@pytest.mark.parametrize(
    ("ts", "dur", "expected"),
    [
        ("1712195495406752.843", "0.9", (1712195495406752843, 1712195495406753743)),
        ("5153710489192.501", "0.001", (5153710489192501, 5153710489192502)),
        ("8796093022207.999", "3.002", (8796093022207999, 8796093022211001)),
        ("1712195495406752", "17", (1712195495406752000, 1712195495406769000)),
        ("1712195495406752", "0.25", (1712195495406752000, 1712195495406752250)),
        ("0.0005", "0.0006", (0, 1)),
        ("1e3", "0", (1_000_000, 1_000_000)),
    ],
)
def test_times_are_exact_to_the_nanosecond(write, ts, dur, expected):
    """Also where doubles have steps of 250 ns; ends are rounded as ts + dur."""
    text = json.dumps([event()]).replace('"ts": 10', f'"ts": {ts}').replace('"dur": 2', f'"dur": {dur}')
    assert [expected] == times(write(text.encode()))


def test_absolute_times_leave_no_negative_gap(write):
    """0.9 µs from …752.843 ends before …753.743 starts."""
    text = json.dumps([event(), event(ts=11)])
    text = text.replace('"ts": 10, "dur": 2', '"ts": 1712195495406752.843, "dur": 0.9')
    text = text.replace('"ts": 11, "dur": 2', '"ts": 1712195495406753.743, "dur": 0.9')
    first, second = times(write(text.encode()))
    assert 0 == second[0] - first[1]


@pytest.mark.parametrize("unit", ["ms", "ns", None])
def test_the_display_unit_scales_nothing(write, unit):
    """ts and dur are µs whatever a viewer shows."""
    document = {"traceEvents": [event()]} | ({"displayTimeUnit": unit} if unit else {})
    assert [(10_000, 12_000)] == times(write(document))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"dur": None}, "has no dur"),
        ({"ts": None}, "has no ts"),
        ({"ts": -1}, "negative ts"),
        ({"dur": -0.5}, "negative dur"),
        ({"ts": "12"}, "which is no number"),
        ({"ts": True}, "which is no number"),
        ({"ts": float("nan")}, "ts nan"),
        ({"dur": float("inf")}, "dur inf"),
        ({"ts": 10**17}, "year 2255"),
        ({"ts": 10**400}, "year 2255"),
        ({"ts": 2**53 - 1, "dur": 2}, "year 2255"),
    ],
)
def test_a_time_that_cannot_be_is_refused_with_its_events_number(refused, fields, said):
    """Event 1 is the bad one, and the message says what was expected."""
    message = refused([event(), event(**fields), event()])
    assert said in message
    assert "event 1 of traceEvents" in message


def test_a_bad_time_of_a_category_that_is_not_read_does_no_harm(write):
    """Only what is used has to be right."""
    assert 1 == KINETO.read(write([event(), event(cat="ac2g", ts=-1)]), say_nothing).device["kind"].size


# Damaged files


def good(count=30):
    return json.dumps({"schemaVersion": 1, "traceEvents": [event(ts=i, name=f"k{i}") for i in range(count)]}).encode()


def test_a_file_cut_at_70_percent_is_refused_near_the_event(refused):
    """Event 21 of 30, or one beside it."""
    data = good()
    message = refused(data[: len(data) * 7 // 10])
    assert "is truncated" in message
    assert any(f"near event {number}" in message for number in (20, 21, 22))


def test_a_brace_too_many_is_refused_with_its_byte(refused):
    """The file goes on after its end."""
    data = good()
    assert f"goes on after its end at byte {len(data):,}, near event 30" in refused(data + b"}")


def test_a_truncated_gzip_file_is_refused(refused):
    """The gzip data ends before its end mark."""
    data = gzip.compress(good(3000))
    assert "is truncated: its gzip data ends at byte" in refused(data[: len(data) // 2])


def test_a_damaged_gzip_file_is_refused(refused):
    """A checksum that is wrong, and bytes behind the end."""
    data = bytearray(gzip.compress(good()))
    data[-6] ^= 0xFF
    assert "is damaged" in refused(bytes(data))
    assert "is damaged" in refused(gzip.compress(good()) + b"tail")


def test_a_stray_quote_in_a_name_is_refused_with_byte_and_event(refused):
    """Unescaped quotes end a name too early."""
    message = refused(good().replace(b'"k7"', b'"k"7"'))
    assert "it is no JSON at byte" in message
    assert "near event 8" in message or "near event 7" in message


def test_an_opening_quote_that_is_missing_is_refused(refused):
    """`tid": 0` of an exporter of 2019."""
    assert "it is no JSON at byte" in refused(good().replace(b'"tid": 7', b'tid": 7', 1))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"[" * 100_000, "event 0 of traceEvents, itself: expected object, got array"),
        (b'{"traceEvents": [{"args": {"z": ' + b"[" * 100_000, "nested too deeply"),
        (b"5", "is JSON but no chrome trace"),
        (b'{"a": 1}', "no traceEvents; its top-level keys: 'a'"),
        (b'{"traceEvents": null}', "no traceEvents"),
        (b'{"traceEvents": {}}', "no chrome trace"),
        (b'{"traceEvents": [null]}', "event 0 of traceEvents"),
        (b'{"traceEvents": [{}, {"args": []}]}', "event 1 of traceEvents, args: expected object"),
        (b'{"traceEvents": [{"pid": []}]}', "event 0 of traceEvents, pid"),
        (b'{"x": 1, "rocprofiler-sdk-tool": []}', "rocprofiler-sdk-tool"),
        (
            b'{"z": NaN, "traceEvents": [{"ph": "X", "cat": "kernel", "ts": 1e99999999999999999999}]}',
            "out of all range",
        ),
        (b'{"z": NaN, "traceEvents": [{"ts": ' + b"9" * 5000 + b"}]}", "out of all range"),
        (b"\x00\x01", "is damaged"),
    ],
)
def test_what_is_no_trace_is_refused_in_one_sentence(refused, content, said):
    """Never a traceback."""
    assert said in refused(content)


def test_a_folder_and_a_missing_file_are_refused(tmp_path):
    """The system's own words."""
    for path in (tmp_path, tmp_path / "none.json"):
        with pytest.raises(InputError, match="cannot be read"):
            _chrome.read_trace(path, say_nothing)


def test_a_file_that_expands_beyond_all_traces_is_refused(refused, monkeypatch):
    """Zeros expand 1000:1."""
    monkeypatch.setattr(_chrome, "CHECKED_FROM_BYTES", 1 << 20)
    assert "expands more than 200:1" in refused(gzip.compress(b" " * (8 << 20)))


def test_a_file_beyond_the_limit_is_refused_plain_or_packed(refused, monkeypatch):
    """The limit is of the JSON, not of the file."""
    monkeypatch.setattr(_chrome, "MAX_BYTES", 1000)
    assert "more than 0 GiB" in refused(good())
    assert "expands to more than 0 GiB" in refused(gzip.compress(good()))


# Files that msgspec refuses and that are read all the same


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        (rb"torch\cuda\__init__.py(219)", r"torch\cuda\__init__.py(219)"),
        (rb"C:\\x\users\q", r"C:\x\users\q"),
        (b"two\nlines", "two\nlines"),
        (b"tab\there", "tab\there"),
        (b"not \xff UTF-8", "not � UTF-8"),
        (rb"lone \ud800 surrogate", "lone ? surrogate"),
        (rb"\u00b5s", "µs"),
    ],
)
def test_a_name_that_is_no_right_json_is_read(write, raw, name):
    """Windows paths, raw control characters, bytes that are no UTF-8."""
    capture = KINETO.read(write(json.dumps([event(name="NAME")]).encode().replace(b"NAME", raw)), say_nothing)
    assert (name,) == capture.names


def test_numbers_above_64_bits_do_no_harm(write):
    """As pid, tid, stream, correlation and bytes."""
    huge = 18446744073709551615
    args = {"stream": huge, "correlation": huge, "bytes": huge, "Comms Id": huge, "device": huge}
    capture = KINETO.read(write([event(pid=huge, tid=huge * 2, args=args), event(args={"z": 1e300})]), say_nothing)
    assert 2 == len(capture.device)


def test_a_long_name_is_cut(write):
    """10,000 characters and three dots."""
    capture = KINETO.read(write([event(name="x" * 20_000)]), say_nothing)
    assert ("x" * 10_000 + "...",) == capture.names


# Properties

_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
_categories = st.sampled_from(
    ["kernel", "cuda_runtime", "gpu_memcpy", "cuda_sync", "cpu_op", "CudaRuntime", "Memcpy", "overhead", "Operator"]
)
_times = st.integers(0, 10**16).map(lambda ns: ns / 1000)
_value = st.integers(-2, 3) | st.sampled_from([2**64, "7", "stream 7", 1.5, None, [1], {}])
_events = st.fixed_dictionaries(
    {"ph": st.just("X"), "cat": _categories, "name": st.sampled_from(["cudaMemcpyAsync", "Event Sync", "é"])},
    optional={
        "ts": _times | _value,
        "dur": _times | _value,
        "pid": st.integers(-2, 3) | st.sampled_from(["a", "868(C++)", 2**70, 1.5]),
        "tid": st.integers(-2, 3) | st.sampled_from(["a", "868(C++)", 2**70, 1.5]),
        "args": st.dictionaries(
            st.sampled_from(sorted({known.encode_name for known in msgspec.structs.fields(_chrome.Args)})),
            _value,
        ),
    },
)
_documents = st.fixed_dictionaries(
    {"traceEvents": st.lists(_events, max_size=6)}, optional={"schemaVersion": st.sampled_from([1, "1.0.2"])}
)


def reads_or_refuses(path):
    for importer in (KINETO, PADDLE):
        try:
            capture = importer.read(path, say_nothing)
        except InputError as error:
            assert str(error)
        else:
            assert isinstance(capture, Capture)
            for table in (capture.api, capture.device, capture.ranges, capture.overhead):
                assert (table["end_ns"] >= table["start_ns"]).all()
                assert (table["start_ns"] >= 0).all()


@BOUNDED
@given(data=st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(write, data):
    """Nothing but a Capture or an InputError."""
    reads_or_refuses(write(data))
    reads_or_refuses(write(b"\x1f\x8b" + data))


@BOUNDED
@given(value=_json)
def test_any_json_is_read_or_refused(write, value):
    """As the whole document, and as the events."""
    reads_or_refuses(write(json.dumps(value).encode()))
    reads_or_refuses(write(json.dumps({"traceEvents": value}).encode()))


@BOUNDED
@given(document=_documents)
def test_any_events_are_read_or_refused(write, document):
    """Fields that are missing, of another type or out of range."""
    reads_or_refuses(write(document))


@BOUNDED
@given(
    document=_documents,
    at=st.floats(0, 1),
    change=st.sampled_from([b"", b"}", b'"', b"\\", b"\x00", b"\xff", b"9" * 30]),
)
def test_a_damaged_trace_is_read_or_refused(write, document, at, change):
    """A byte replaced anywhere."""
    data = json.dumps(document).encode()
    place = int(at * (len(data) - 1))
    reads_or_refuses(write(data[:place] + change + data[place + 1 :]))
    reads_or_refuses(write(gzip.compress(data)[:place]))


@BOUNDED
@given(
    starts=st.lists(st.tuples(st.integers(0, 8_796_093_022_207_999), st.integers(0, 10**9)), min_size=1, max_size=8),
    whole=st.booleans(),
)
def test_the_slow_way_gives_what_the_fast_way_gives(write, starts, whole):
    """A newline in an unused name turns the fast way off, and changes nothing."""
    text = [
        f'{{"ph": "X", "cat": "kernel", "name": "k{i % 3}", "pid": 0, "tid": "stream 7", "ts": {_us(start, whole)}, '
        f'"dur": {_us(length, whole)}, "args": {{"stream": 7, "device": 0, "bytes": "{i}", "correlation": {i}.0}}}}'
        for i, (start, length) in enumerate(starts)
    ]
    fast = write(f'{{"traceEvents": [{", ".join(text)}], "traceName": "x"}}'.encode(), "fast.json")
    slow = write(f'{{"traceEvents": [{", ".join(text)}], "traceName": "\n"}}'.encode(), "slow.json")
    assert KINETO.read(fast, say_nothing) == KINETO.read(slow, say_nothing)
    expected = [(start // 1000 * 1000, length // 1000 * 1000) if whole else (start, length) for start, length in starts]
    assert [(start, start + length) for start, length in expected] == times(fast)


def _us(ns, whole):
    return str(ns // 1000) if whole else f"{ns // 1000}.{ns % 1000:03}"
