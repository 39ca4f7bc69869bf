"""Marks the steps, transfers and fences of a decode loop that is not fdprof's own.

    with fdprof.step(k):
        with fdprof.transfer("sampled_token_ids"):
            ...                                     # the calls that start the copies
        with fdprof.fence("sampled_token_ids"):
            event.synchronize()                     # your own wait

Who hears a range, be it a marker's or a recorder's (fdprof.recorder): the NVTX tool that was there when this module was
imported, in the domain `fdprof`, and the sink that is attached when the range begins; `listener` is both.  Whether
there is a tool is asked once and never again: NVTX takes the one that its variable names at its first use, and a
variable that is set later, as the collector lends it for other libraries, brings nobody the ranges of this one.  Each
of the two gets a range once, as long as nobody is both: a sink is attached by whom NVTX does not bring the ranges.
With neither, a marker costs two calls that do nothing (benchmarks/marker_cost.py).

A range is pushed and popped on the thread that runs its `with` statement, so it must not hold an `await` or a `yield`.
No value makes a marker raise: a loop that works must work while it is profiled.  Needs neither CUDA nor numpy.
"""

from __future__ import annotations

import os
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from fdprof.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

DOMAIN = "fdprof"

_STEP, _TRANSFER, _FENCE = "step", "transfer", "fence"

_INJECTION = "NVTX_INJECTION64_PATH"
_WAYS_IN = (_INJECTION, "CUDA_INJECTION64_PATH", "LD_PRELOAD")
"""The variables by which a tool may get into NVTX; without any of them `import nvtx`, which loads numpy, is saved."""

_LIMIT = 2**63
_LONGEST_NAME = 200
_MOST_NAMES = 1000
"""So many names of a kind are kept apart: a tool keeps each of them for the life of the process."""

_OTHERS = "(other names)"


class Range(Protocol):
    """What `with` needs.  It may be entered again, also inside itself and on other threads."""

    def __enter__(self) -> None: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Sink(Protocol):
    """Takes ranges as they happen, on the thread they happen on; it must not raise.

    `pop` ends the thread's latest range.  Both may still be called for a while after `detach`: a range that began at
    a sink ends there.
    """

    def push(self, name: str, payload: int | None) -> None:
        """Begin a range: `step` with the step's index, None if unknown; `transfer:NAME`, `fence:NAME` or `fence`."""

    def pop(self) -> None: ...


def step(index: int) -> Range:
    """Return the range of one step of the loop, from its start to its end.

    Indices count upwards.  One that is no integer, or none of 64 bits, leaves the step without an index.
    """
    if listener is None:
        return _OFF
    return _step(index)


def transfer(name: str) -> Range:
    """Return the range of the calls that start the copy of a tensor, or of a group with one event."""
    if listener is None:
        return _OFF
    return _named(_TRANSFER, name)


def fence(name: str | None = None) -> Range:
    """Return the range of the wait for a transfer: around your own call that waits."""
    if listener is None:
        return _OFF
    return _named(_FENCE, name)


def listens() -> bool:
    """Return whether ranges go anywhere now."""
    return listener is not None


def has_tool() -> bool:
    """Return whether an NVTX tool gets the ranges; one that comes later never does."""
    return _nvtx is not None


def attached() -> Sink | None:
    """Return the sink that markers go to, if one is attached."""
    return _attached


def attach(sink: Sink) -> None:
    """Send markers to a sink, from those on that are made from now on; UsageError when one is attached already.

    An NVTX tool that records the process goes on getting them.
    """
    global _attached, listener
    with _changing:
        if _attached is not None:
            raise UsageError(
                f"markers go to {type(_attached).__name__} already", "one recording at a time: stop the first one"
            )
        _attached = sink
        listener = Listener(_ToSink(sink) if _nvtx is None else _ToBoth(_nvtx, _ToSink(sink)))


def detach() -> None:
    """Take the sink away, if there is one.  Ranges that are open on any thread still end there."""
    global _attached, listener
    with _changing:
        _attached = None
        listener = None if _nvtx is None else Listener(_nvtx)


def _leave(kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
    """Let an exception pass."""


class _Off:
    """The range when nothing listens.

    Neither attribute is a method: making bound methods is half of what `with` costs.  `clear` of an empty list is a C
    function that takes nothing, does nothing and returns None; a plain function is called faster at the other end.
    """

    __slots__ = ()
    __enter__ = [].clear
    __exit__ = staticmethod(_leave)


_OFF = cast(Range, _Off())


class _On:
    """A range that is heard.  It keeps no state, so it may be entered anywhere, and ends where it began."""

    __slots__ = ("_begin", "_end")

    def __init__(self, begin: Callable[[], None], end: Callable[[], None]) -> None:
        self._begin, self._end = begin, end

    def __enter__(self) -> None:
        self._begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()


class _OnStep:
    """The range of one step, with its index."""

    __slots__ = ("_begin", "_end", "_index")

    def __init__(self, begin: Callable[[int | None], None], index: int | None, end: Callable[[], None]) -> None:
        self._begin, self._index, self._end = begin, index, end

    def __enter__(self) -> None:
        self._begin(self._index)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()


class Target(Protocol):
    """Where ranges go."""

    @property
    def begin_step(self) -> Callable[[int | None], None]: ...
    @property
    def end(self) -> Callable[[], None]: ...

    def beginning(self, name: str, category: str | None = None) -> Callable[[], None]:
        """Return the call that begins a range of this name; NVTX has categories, elsewhere they follow a colon."""


class _ToSink:
    def __init__(self, sink: Sink) -> None:
        self._push, self.end = sink.push, sink.pop
        self.begin_step: Callable[[int | None], None] = partial(sink.push, _STEP)

    def beginning(self, name: str, category: str | None = None) -> Callable[[], None]:
        return partial(self._push, f"{name}:{category}" if category else name, None)


class _ToNvtx:
    def __init__(self, domain: Any) -> None:
        self._domain = domain
        self._push, self.end = domain.push_range, domain.pop_range
        self._spare: list[Any] = []  # attributes of steps that no thread is pushing

    def begin_step(self, index: int | None) -> None:
        # Made anew, attributes cost four times as much; shared, another thread would change the index in between.
        try:
            attributes = self._spare.pop()
        except IndexError:
            attributes = self._domain.get_event_attributes(message=_STEP)
        attributes.payload = index
        self._push(attributes)
        self._spare.append(attributes)

    def beginning(self, name: str, category: str | None = None) -> Callable[[], None]:
        return partial(self._push, self._domain.get_event_attributes(message=name, category=category))


class _ToBoth:
    def __init__(self, outer: Target, inner: Target) -> None:
        self._outer, self._inner = outer, inner

    def begin_step(self, index: int | None) -> None:
        self._outer.begin_step(index)
        self._inner.begin_step(index)

    def beginning(self, name: str, category: str | None = None) -> Callable[[], None]:
        both = (self._outer.beginning(name, category), self._inner.beginning(name, category))
        return partial(_one_after_other, *both)

    def end(self) -> None:
        self._inner.end()
        self._outer.end()


def _one_after_other(first: Callable[[], None], second: Callable[[], None]) -> None:
    first()
    second()


class Listener:
    """All who hear ranges between one change and the next, as one target, and the markers made for it."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.ranges: dict[str, dict[str | None, _On]] = {_TRANSFER: {}, _FENCE: {}}

    def new(self, kind: str, name: object) -> _On:
        """Return the range of a name that was not met before, and keep it."""
        key = _text(name)
        ranges = self.ranges[kind]
        if key not in ranges and len(ranges) >= _MOST_NAMES:
            key = _OTHERS
        # Two threads may make the same range: either will do.
        made = ranges.get(key) or _On(self.target.beginning(f"{kind}:{key}" if key else kind), self.target.end)
        ranges[key] = made
        return made


def _step(index: int) -> Range:
    heard_by = listener
    if heard_by is None:  # detached on another thread since it was asked
        return _OFF
    number = index if type(index) is int and -_LIMIT <= index < _LIMIT else _integer(index)
    return _OnStep(heard_by.target.begin_step, number, heard_by.target.end)


def _named(kind: str, name: str | None) -> Range:
    heard_by = listener
    if heard_by is None:
        return _OFF
    # By type first: looking up a tensor could ask it whether it equals another, on the device.
    found = heard_by.ranges[kind].get(name) if type(name) is str or name is None else None
    return found or heard_by.new(kind, name)


def _integer(index: object) -> int | None:
    """Return numpy's integers and the like as a plain one; None for what is none, has too many bits, or is a tensor.

    To get an integer out of a tensor is to wait for its device.
    """
    from numbers import Integral

    number = int(index) if issubclass(type(index), Integral) else None  # type: ignore[call-overload]
    return number if number is not None and -_LIMIT <= number < _LIMIT else None


def _text(name: object) -> str | None:
    """Return a name that every tool can show, None for none."""
    if name is None:
        return None
    # What a tensor prints as would have to be copied from its device.
    shown = str.__str__(name) if issubclass(type(name), str) else f"<{type(name).__name__}>"
    if len(shown) > _LONGEST_NAME:
        shown = shown[: _LONGEST_NAME - 1] + "…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in shown)


def _nvtx_domain() -> Any:
    """Return the NVTX domain `fdprof` if a tool records this process, None if not."""
    if os.environ.get("NVTX_DISABLE") or not any(os.environ.get(variable) for variable in _WAYS_IN):
        return None
    import nvtx  # here: it imports numpy where there is one

    domain = nvtx.get_domain(DOMAIN)
    if domain.get_event_attributes(message=_STEP) is not None:
        return domain
    return _unasked_domain() if os.environ.get(_INJECTION) else None


def _unasked_domain() -> Any:
    """Return a domain for a tool that is in the process and calls the domain disabled; None if nvtx has no such thing.

    Nsight Systems 2024.2 records domains that it calls disabled, and the nvtx package would send it nothing.
    """
    try:
        from nvtx._lib.lib import Domain, DomainHandle
    except ImportError:
        return None
    domain = object.__new__(Domain)
    domain.handle = DomainHandle(DOMAIN)
    domain.__init__(DOMAIN)
    return domain


def _nvtx_target() -> _ToNvtx | None:
    domain = _nvtx_domain()
    return None if domain is None else _ToNvtx(domain)


_changing = threading.Lock()
_nvtx = _nvtx_target()
_attached: Sink | None = None
listener: Listener | None = None if _nvtx is None else Listener(_nvtx)
"""Who hears ranges now, None for nobody: to be read only, as `markers.listener`; `attach` and `detach` change it."""
