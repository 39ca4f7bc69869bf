"""Reads a chrome trace, as Kineto and paddle.profiler write it, into typed events: plain or gzip, object or list.

msgspec skips whatever is not declared below without making an object of it.  A file that it refuses (control characters
in names, bytes that are no UTF-8, NaN, lone surrogates, backslashes of Windows paths) is read again by json, slower.
"""

import gzip
import json
import os
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from fdprof.errors import InputError
from fdprof.importers.protocol import Progress
from fdprof.model import IntColumn

MAX_BYTES = 4 << 30
"""No more JSON than this is read."""

MAX_EXPANSION = 200
"""Gzip data that grows more than this, once past `CHECKED_FROM_BYTES`, is no trace: traces reach about 30."""

CHECKED_FROM_BYTES = 64 << 20

LEAST_BYTES = 8
"""Objects and lists shorter than this on average are no events: each takes ten times as much as an object in memory."""

AGAIN = "export the trace again, after the profiler has stopped"

_CHUNK = 4 << 20
_GZIP_MAGIC = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"

# A number of ns below this is held by a double of µs: the next double is less than 1 ns away, and the text had at most
# three decimals.  Above it, the text itself has to be taken.
_DOUBLE_US = 2.0**43
# ints are doubles up to here, and ns up to here fit int64: the year 2255.
_MAX_US = 2**53

_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|\\')
_AT = re.compile(r"^(?P<what>.*?)(?: - at `\$(?:\.traceEvents)?(?:\[(?P<event>\d+)\])?(?P<key>[^`]*)`)?$", re.DOTALL)
_PADDLE_HEAD = re.compile(rb'"schemaVersion"\s*:\s*"|"span_indx"\s*:|"\d+\((?:C\+\+|Python)\)"')
_FIRST_TIME = re.compile(rb'"ts"\s*:\s*(\d{1,20})\.\d')
_NOT_SPACE = re.compile(rb"\S")
_ROCPROF = "rocprofiler-sdk-tool"
_ROCPROF_HEAD = re.compile(rb'\s*\{\s*"rocprofiler-sdk-tool"\s*:')


class Args(msgspec.Struct, gc=False):
    """What is wanted of an event's args; any of it may have any type."""

    correlation: Any = None
    paddle_correlation: Any = msgspec.field(default=None, name="correlation id")
    external: Any = msgspec.field(default=None, name="External id")
    device: Any = None
    stream: Any = None
    bytes: Any = None
    kind: Any = None
    name: Any = None
    sync_kind: Any = msgspec.field(default=None, name="cuda_sync_kind")
    wait_stream: Any = msgspec.field(default=None, name="wait_on_stream")
    wait_record: Any = msgspec.field(default=None, name="wait_on_cuda_event_record_corr_id")
    wait_event: Any = msgspec.field(default=None, name="wait_on_cuda_event_id")
    start_time: Any = None


class Event(msgspec.Struct, gc=False):
    """One event; times are µs, as int, float or (where the text itself is needed) Decimal."""

    ph: str | None = None
    cat: str | None = None
    name: str | None = None
    pid: int | float | str | None = None
    tid: int | float | str | None = None
    ts: Any = None
    dur: Any = None
    args: Args | None = None


class About(msgspec.Struct):
    """What the file says of itself, besides its events."""

    traceEvents: list[Event] | None = None  # noqa: N815 - the format's own name
    schemaVersion: Any = None  # noqa: N815
    span_indx: Any = None
    deviceProperties: Any = None  # noqa: N815
    computeProperties: Any = None  # noqa: N815
    cuda_runtime_version: Any = None
    hip_runtime_version: Any = None
    roctracer_version: Any = None


Top = list[Event] | About
Data = bytes | bytearray

NO_ARGS = Args()
_PHASE_AND_CATEGORY = attrgetter("ph", "cat")

_KEPT = frozenset(known.encode_name for struct in (Args, Event, About) for known in msgspec.structs.fields(struct))
_FAST = msgspec.json.Decoder(Top)
_EXACT = msgspec.json.Decoder(Top, float_hook=Decimal)


@dataclass(frozen=True, slots=True)
class Rows:
    """Complete events of some categories, in the file's order, with their times in ns."""

    events: list[Event]
    start_ns: IntColumn
    end_ns: IntColumn

    def args(self) -> list[Args]:
        """Return each event's args, empty ones where it has none."""
        return [event.args or NO_ARGS for event in self.events]

    def where(self, chosen: npt.NDArray[np.bool_]) -> "Rows":
        """Return the chosen rows."""
        if chosen.all():
            return self
        numbers = np.flatnonzero(chosen)
        return Rows([self.events[number] for number in numbers.tolist()], self.start_ns[numbers], self.end_ns[numbers])


class Trace:
    """A file's events, and the numbers of its complete ones (ph X) by category in lower case."""

    def __init__(
        self, path: Path, about: About, events: list[Event], exactly: Callable[[], list[Event]] | None = None
    ) -> None:
        """`exactly` reads the events again, their times as Decimal; None where they are so already."""
        self.path = path
        self.about = about
        self.events = events
        self._exactly = exactly
        self.categories: dict[str, list[int]] = {}
        self.metadata: list[Event] = []
        pairs = list(map(_PHASE_AND_CATEGORY, events))
        index = {pair: number for number, pair in enumerate(dict.fromkeys(pairs))}
        code = np.fromiter(map(index.__getitem__, pairs), dtype=np.int32, count=len(pairs))
        for (phase, name), number in index.items():
            if phase == "X":
                self.categories.setdefault((name or "").casefold(), []).extend(np.flatnonzero(code == number).tolist())
            elif phase == "M":
                self.metadata += [events[row] for row in np.flatnonzero(code == number).tolist()]

    def rows(self, *categories: str) -> Rows:
        """Return the complete events of these categories; InputError naming the first whose time cannot be used."""
        numbers = [number for category in categories for number in self.categories.get(category, ())]
        events = [self.events[number] for number in numbers]
        ts, dur = [event.ts for event in events], [event.dur for event in events]
        floats = _floats(ts), _floats(dur)
        if self._exactly is not None and not all(map(_hold, (ts, dur), floats)):
            self.events, self._exactly = self._exactly(), None
            return self.rows(*categories)
        times = _times(ts, dur, *floats)
        if times is None:
            raise self._bad_time(numbers)
        return Rows(events, *times)

    def is_paddle(self) -> bool:
        """Return whether paddle.profiler wrote it: the version is a string, or host threads are named 868(C++)."""
        if self.about.schemaVersion is not None:
            return isinstance(self.about.schemaVersion, str)
        return self.about.span_indx is not None or any(
            isinstance(event.tid, str) and event.tid.endswith(("(C++)", "(Python)")) for event in self.events
        )

    def refuse(self, what: str, hint: str) -> InputError:
        """Return the error that says so of this file."""
        return InputError(f"{self.path} {what}", hint)

    def _bad_time(self, numbers: list[int]) -> InputError:
        for number in numbers:
            event = self.events[number]
            problem = _problem("ts", event.ts) or _problem("dur", event.dur)
            if problem is None and event.ts + event.dur > _MAX_US:
                problem = "ends after the year 2255"
            if problem is not None:
                break
        else:  # each time is right by itself, so the kinds of numbers differ: NaN beside exact ones, say
            number, event, problem = numbers[0], self.events[numbers[0]], "has a time that is no number"
        where = f"{self.path}: event {number} of traceEvents, {event.name or ''!r:.80} of category {event.cat!r:.40}"
        return InputError(f"{where}, {problem}; expected a complete event with ts and dur in µs", AGAIN)


def is_json(head: bytes) -> bool:
    """Return whether a file that starts so may be JSON: the readers refuse by name what is no chrome trace."""
    return head.removeprefix(_BOM).lstrip()[:1] in (b"{", b"[")


def is_paddle_head(head: bytes) -> bool:
    """Return whether a file that starts so was written by paddle.profiler; False also when its start cannot tell."""
    return is_json(head) and _PADDLE_HEAD.search(head) is not None


def read_trace(path: Path, progress: Progress) -> Trace:
    """Return a file's events; InputError, in one sentence, for whatever is no whole chrome trace."""
    data = _content(path)
    if data.startswith(_BOM):
        data = data[len(_BOM) :]
    if _NOT_SPACE.search(data) is None:
        raise InputError(f"{path} is empty", AGAIN)
    progress(f"{path.name}: {len(data) / 1e6:,.1f} MB of JSON")
    if len(data) > CHECKED_FROM_BYTES and (data.count(b"{") + data.count(b"[")) * LEAST_BYTES > len(data):
        raise InputError(f"{path} is little but brackets, which no trace is", "check where the file comes from")
    if _ROCPROF_HEAD.match(data):
        raise _no_trace(path, [_ROCPROF])
    top, is_exact = _parsed(path, data)
    events = _events(top)
    if events is None:
        raise _no_trace(path, _keys(data))
    progress(f"{path.name}: {len(events):,} events")
    about = About() if isinstance(top, list) else top
    about.traceEvents = None

    def exactly() -> list[Event]:
        return _events(_guarded(path, lambda: _EXACT.decode(data))) or []

    return Trace(path, about, events, None if is_exact else exactly)


def _events(top: Top) -> list[Event] | None:
    return top if isinstance(top, list) else top.traceEvents


_SHORTER = "profile fewer steps, or read it on a machine with more memory"


# The file's content


def _content(path: Path) -> Data:
    """Return the JSON in the file, whatever its suffix says."""
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size > MAX_BYTES:  # before room is made for it
                raise InputError(f"{path} has more than {MAX_BYTES >> 30} GiB", "profile fewer steps")
            is_gzip = file.read(2) == _GZIP_MAGIC
            file.seek(0)
            if is_gzip:
                return _inflated(path, file)
            return file.read(MAX_BYTES)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}", "check the path") from error
    except MemoryError as error:
        raise InputError(f"{path} does not fit in memory", _SHORTER) from error


def _inflated(path: Path, file: Any) -> bytearray:
    data = bytearray()
    try:
        with gzip.GzipFile(fileobj=file) as stream:
            while chunk := stream.read(_CHUNK):
                data += chunk
                if len(data) > MAX_BYTES:
                    raise InputError(f"{path} expands to more than {MAX_BYTES >> 30} GiB", "profile fewer steps")
                if len(data) > CHECKED_FROM_BYTES and len(data) > MAX_EXPANSION * file.tell():
                    raise InputError(
                        f"{path} expands more than {MAX_EXPANSION}:1 ({file.tell():,} bytes to {len(data):,}), "
                        "which no trace does",
                        "check where the file comes from",
                    )
    except EOFError as error:
        raise InputError(
            f"{path} is truncated: its gzip data ends at byte {file.tell():,}, {_near(data, len(data))}", AGAIN
        ) from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError(
            f"{path} is damaged: its gzip data is wrong before byte {file.tell():,}, {_near(data, len(data))}: {error}",
            AGAIN,
        ) from error
    return data


# From bytes to events


def _parsed(path: Path, data: Data) -> tuple[Top, bool]:
    """Return the document, and whether its times were taken from the text and not from doubles."""
    found = _FIRST_TIME.search(data, 0, _CHUNK)
    is_exact = found is not None and int(found[1]) >= _DOUBLE_US  # or it would be found out later, and read again
    try:
        return _guarded(path, lambda: (_EXACT if is_exact else _FAST).decode(data)), is_exact
    except msgspec.DecodeError:
        return _guarded(path, lambda: _parsed_by_json(path, data)), True


def _guarded(path: Path, parse: Callable[[], Top]) -> Top:
    """Return what `parse` returns, with its errors made into ones a person can use."""
    try:
        return parse()
    except msgspec.ValidationError as error:
        raise _unexpected(path, str(error)) from error
    except RecursionError as error:
        raise InputError(f"{path} is nested too deeply to be a trace", AGAIN) from error
    except MemoryError as error:
        raise InputError(f"{path} is too large: its events do not fit in memory", _SHORTER) from error
    except ArithmeticError as error:
        raise InputError(f"{path} has a number that is out of all range", AGAIN) from error
    except UnicodeEncodeError as error:  # of msgspec.convert, where such a text stands for an object or a list
        raise InputError(f"{path} is no chrome trace: half a UTF-16 pair where an object is expected", AGAIN) from error


def _parsed_by_json(path: Path, data: Data) -> Top:
    text = data.decode("utf-8", errors="replace")
    try:
        try:
            tree = _tree(text)
        except json.JSONDecodeError as error:
            if "escape" not in error.msg:
                raise
            # Paths of Windows in names, unescaped: torch\cuda\__init__.py.
            text = _ESCAPE.sub(lambda found: found[0] if len(found[0]) > 1 else "\\\\", text)
            tree = _tree(text)
    except json.JSONDecodeError as error:
        raise _malformed(path, text, error) from error
    except ValueError as error:  # Python's limit of the digits of an int
        raise InputError(f"{path} has a number that is out of all range ({error})", AGAIN) from error
    top: Top = msgspec.convert(tree, Top)
    return top


def _tree(text: str) -> Any:
    return json.loads(text, strict=False, parse_float=Decimal, object_hook=_slim)


def _slim(entries: dict[str, Any]) -> dict[str, Any]:
    """Return the wanted entries, so that the others are freed at once; a device's id is one of no Struct."""
    return {key: entries[key] for key in entries if key in _KEPT or key == "id"}


def _floats(values: list[Any]) -> npt.NDArray[np.float64] | None:
    """Return times that are ints and doubles as doubles; None where none is there, or something else among them."""
    kinds = set(map(type, values))
    if not kinds or not kinds <= {int, float}:
        return None
    if int in kinds and not (max(values) <= _MAX_US and min(values) >= -_MAX_US):
        return None  # no double holds them
    return np.array(values, dtype=np.float64)


def _hold(values: list[Any], us: npt.NDArray[np.float64] | None) -> bool:
    """Return whether the times that are doubles were whole ns before they became doubles."""
    kinds = set(map(type, values))
    if float not in kinds:
        return True
    if us is None or int in kinds:
        us = np.array([value for value in values if type(value) is float], dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(((np.abs(us) < _DOUBLE_US) & (np.rint(us * 1000) / 1000 == us)).all())


# Times


def _times(
    ts: list[Any], dur: list[Any], starts_us: npt.NDArray[np.float64] | None, lengths_us: npt.NDArray[np.float64] | None
) -> tuple[IntColumn, IntColumn] | None:
    """Return starts and ends in ns, None when one of them cannot be used; the times as doubles where they are."""
    if starts_us is not None and lengths_us is not None:
        in_range = ((starts_us >= 0) & (starts_us <= _MAX_US) & (lengths_us >= 0) & (lengths_us <= _MAX_US)).all()
        if not in_range:  # NaN is in no range
            return None
        start = _ns(starts_us)
        end = start + _ns(lengths_us)
        return None if end.max() > _MAX_US * 1000 else (start, end)
    kinds = set(map(type, ts)) | set(map(type, dur))
    if not kinds:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    if not kinds <= {int, Decimal}:
        return None
    if not (min(ts) >= 0 and max(ts) <= _MAX_US and min(dur) >= 0 and max(dur) <= _MAX_US):
        return None
    with localcontext() as context:
        context.prec, context.rounding = 60, ROUND_HALF_EVEN
        starts = [round(value * 1000) for value in ts]
        ends = [round((one + other) * 1000) for one, other in zip(ts, dur, strict=True)]
    if max(ends) > _MAX_US * 1000:
        return None
    return np.array(starts, dtype=np.int64), np.array(ends, dtype=np.int64)


def _ns(us: np.ndarray[Any, np.dtype[np.float64]]) -> IntColumn:
    # The whole µs apart: µs * 1000 in doubles would lose the ns of times near 1.7e15 µs.
    whole = np.floor(us)
    return np.asarray(whole.astype(np.int64) * 1000 + np.rint((us - whole) * 1000).astype(np.int64), dtype=np.int64)


def _problem(key: str, value: Any) -> str | None:
    if value is None:
        return f"has no {key}"
    if type(value) not in (int, float, Decimal):
        shown = repr(value[:40]) if isinstance(value, str) else f"of type {type(value).__name__}"
        return f"has the {key} {shown:.40}, which is no number"
    if value != value or value in (float("inf"), float("-inf")):
        return f"has the {key} {value}"
    if value < 0:
        return f"has the negative {key} {value!s:.40}"
    return f"has the {key} {value!s:.40}, which is after the year 2255" if value > _MAX_US else None


# Errors


def _near(data: Data | str, at: int) -> str:
    count = data.count('"ph"', 0, at) if isinstance(data, str) else data.count(b'"ph"', 0, at)
    return f"near event {count:,}"


def _malformed(path: Path, text: str, error: json.JSONDecodeError) -> InputError:
    byte = len(text[: error.pos].encode("utf-8"))
    where = f"byte {byte:,}, {_near(text, error.pos)}"
    if error.msg == "Extra data":
        return InputError(f"{path} goes on after its end at {where}", AGAIN)
    if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
        return InputError(f"{path} is truncated: its JSON ends within a value that starts at {where}", AGAIN)
    return InputError(f"{path} is damaged: it is no JSON at {where} ({error.msg})", AGAIN)


def _unexpected(path: Path, message: str) -> InputError:
    found = _AT.match(message)
    what = found["what"].replace("`", "") if found else message
    what = what[:1].lower() + what[1:]
    if found is None or found["event"] is None:
        return InputError(f"{path} is JSON but no chrome trace: {what}", _WANTED)
    key = found["key"].removeprefix(".") or "itself"
    return InputError(f"{path}: event {found['event']} of traceEvents, {key}: {what}", AGAIN)


_WANTED = "give a trace of torch.profiler or paddle.profiler, or an export of nsys"


def _no_trace(path: Path, keys: list[str]) -> InputError:
    if _ROCPROF in keys:
        return InputError(
            f"{path} is JSON of rocprofiler-sdk-tool (rocprofv3), no chrome trace: no traceEvents",
            "profile with torch.profiler, and give its chrome trace",
        )
    shown = ", ".join(f"{key!r:.40}" for key in keys[:5]) or "none"
    return InputError(f"{path} is JSON but no chrome trace: no traceEvents; its top-level keys: {shown}", _WANTED)


def _keys(data: Data) -> list[str]:
    try:
        return list(msgspec.json.decode(data, type=dict[str, msgspec.Raw]))
    except (msgspec.DecodeError, RecursionError):
        return []
