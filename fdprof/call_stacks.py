"""From where a command calls what waits or copies: call stacks, counted, and cut down to the caller's own code.

They come from a second, separate run under a profiler that unwinds the stack at every such call.  That takes its time,
so there are counts here and no times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath

from fdprof.api_calls import kind_of, plain_name
from fdprof.capture import COPY_KINDS, WAIT_KINDS
from fdprof.units import counted, printable

_SHOWN_SITES = 5
_SHOWN_FRAMES = 8

# Whose frames are not the caller's, by the beginning of their file's name.
_CUDA = ("libcuda.", "libcudart", "libamdhip")
_PROFILER = ("libcupti", "libtoolsinjection", "libnvtoolsext")
_C_LIBRARY = ("libc.", "libc-", "libpthread", "ld-", "ld.")
_NO_FILE = ("[kernel", "[vdso", "[max", "[broken")
_NOT_THE_CALLER = (*_CUDA, *_PROFILER, *_C_LIBRARY, *_NO_FILE)
_INTERPRETER = ("libpython", "python")
# A program linked with the static runtime has its frames too, under these names.
_OF_THE_RUNTIME = ("__cudart", "libcudart_static_", "cudart::")
_STARTS_A_THREAD = ("_start", "__libc_start", "start_thread", "clone", "__clone", "__GI___clone", "_dl_")
_UNRESOLVED = "0x"


@dataclass(frozen=True, slots=True)
class Frame:
    """One function on a stack. `file` is its library, or its source file where `line` is known."""

    function: str
    file: str
    line: int | None = None

    def text(self) -> str:
        """Return the frame as a person reads it."""
        name = PurePath(self.file).name
        if self.line is not None:
            return printable(f"{self.function} ({self.file}:{self.line})")
        known = "?" if self.function.startswith(_UNRESOLVED) else self.function
        return printable(f"{known} in {name}" if name else known)


@dataclass(frozen=True, slots=True)
class CallStack:
    """Calls of one name from one stack, as recorded: innermost frame first, native and Python's own apart."""

    call: str
    count: int
    native: tuple[Frame, ...]
    python: tuple[Frame, ...] = ()


@dataclass(frozen=True, slots=True)
class Origin:
    """Whence so many of the calls come: the caller's frames, the innermost first.  Empty: no stack was recorded."""

    count: int
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class CallOrigins:
    """A call that waits or copies, and the places it is called from, the most frequent first.

    `others` is how many more places were left out.
    """

    call: str
    kind: str
    count: int
    origins: tuple[Origin, ...]
    others: int


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a diagnosis run saw: counts alone, of calls that lasted longer than `threshold_ns`.

    `notes` say what could not be seen.
    """

    tool: str
    arguments: tuple[str, ...]
    exit_code: int
    threshold_ns: int
    calls: tuple[CallOrigins, ...]
    notes: tuple[str, ...]

    def text_lines(self) -> tuple[str, ...]:
        """Return the diagnosis as lines of text."""
        over = f"calls longer than {self.threshold_ns // 1000} µs, in a run of their own that is not timed"
        lines = [f"Where waits and copies are called from ({self.tool}; {over}):"]
        for call in self.calls:
            lines.append(f"  {printable(call.call)}: {counted(call.count, 'call')}")
            for origin in call.origins:
                frames = [frame.text() for frame in origin.frames] or ["(no stack was recorded)"]
                lines.append(f"    {origin.count:,} × {frames[0]}")
                lines += [f"        from {frame}" for frame in frames[1:]]
            if call.others:
                lines.append(f"    and from {counted(call.others, 'other place')}")
        if not self.calls:
            lines.append("  no such call was recorded")
        return (*lines, *(f"  note: {note}" for note in self.notes))


def origins_of(stacks: Iterable[CallStack]) -> tuple[CallOrigins, ...]:
    """Return the calls that wait or copy, the most frequent first, each with its origins."""
    by_call: dict[str, Counter[tuple[Frame, ...]]] = {}
    for stack in stacks:
        name = plain_name(stack.call)
        if kind_of(name) in WAIT_KINDS | COPY_KINDS:
            by_call.setdefault(name, Counter())[callers(stack)] += stack.count
    found = (_origins(name, counts) for name, counts in by_call.items())
    return tuple(sorted(found, key=lambda call: (-call.count, call.call)))


def callers(stack: CallStack) -> tuple[Frame, ...]:
    """Return the frames of the caller's own code, the innermost first.

    Those of CUDA, the profiler and the C library at the inner end go, and those that start a thread or a program at
    the outer end.  Where Python's frames are known they take the place of the interpreter's.
    """
    inner = next((at for at, frame in enumerate(stack.native) if not _is_call_itself(frame, stack.call)), None)
    native = list(stack.native[inner:]) if inner is not None else []
    while native and _starts_a_thread(native[-1]):
        native.pop()
    own: list[Frame] = []
    for frame in native:
        if _is_interpreter(frame):
            if stack.python:
                break
            frame = Frame("Python code", frame.file)
        if own[-1:] != [frame]:
            own.append(frame)
    return (*own, *stack.python)[:_SHOWN_FRAMES]


def _origins(name: str, counts: Counter[tuple[Frame, ...]]) -> CallOrigins:
    shown = counts.most_common(_SHOWN_SITES)
    origins = tuple(Origin(count, frames) for frames, count in shown)
    return CallOrigins(name, kind_of(name).name.lower(), counts.total(), origins, len(counts) - len(shown))


def _is_call_itself(frame: Frame, call: str) -> bool:
    function = frame.function
    return (
        _file_begins(frame, _NOT_THE_CALLER)
        or function.startswith(_OF_THE_RUNTIME)
        or plain_name(function) == plain_name(call)
        or _is_wrapper(function, call)
    )


def _is_wrapper(function: str, call: str) -> bool:
    """Return whether this is the header's C++ template of the call: 'cudaError cudaMalloc<double>(...)'."""
    return f" {plain_name(call)}<" in function


def _starts_a_thread(frame: Frame) -> bool:
    return frame.function.startswith(_STARTS_A_THREAD) or not frame.file or frame.file == "[Unknown]"


def _is_interpreter(frame: Frame) -> bool:
    return _file_begins(frame, _INTERPRETER)


def _file_begins(frame: Frame, names: tuple[str, ...]) -> bool:
    return PurePath(frame.file).name.lower().startswith(names)
