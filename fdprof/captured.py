"""What `fdprof capture` leaves: a folder with a capture as its tracer wrote it, and beside it how it came about.

FOLDER/capture.json    the record below, with schema_version and kind
FOLDER/NAME            the capture: a file or folder that an importer reads; what the tracer wrote under the same
                       stem lies beside it
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fdprof import folders
from fdprof.capture import Capture, Inflation
from fdprof.documents import damage_in, entries, mapping, natural, number, read_json, require_file, text, write_json
from fdprof.errors import InputError
from fdprof.supervision import Ended
from fdprof.units import printable

# History of the format.  1: first.
SCHEMA_VERSION = 1
KIND = "capture"
FORMAT = "folder of `fdprof capture`"

_FILE = "capture.json"
_INSTEAD = "trace.json"  # of a capture that has the record's name
_DAMAGED = "the capture's folder is damaged: take the capture again, or analyze the file in it by its own path"
_MAX_EXIT_CODE = 255
_LONGEST_NAME = 255  # bytes, of Linux's file systems


@dataclass(frozen=True, slots=True)
class Captured:
    """How a capture came about. `capture` is the name of the file or folder in the record's folder."""

    tracer: str  # the plugin's name
    tool: str  # the profiler and its version
    command: tuple[str, ...]  # as the user gave it, or as the scenario was turned into one
    arguments: tuple[str, ...]  # what was run, the profiler's options included
    scenario: str | None  # None: a command of the user's own
    mode: str | None
    started_utc: str
    exit_code: int
    ended: Ended
    capture: str
    inflation: Inflation | None = None
    notes: tuple[str, ...] = ()

    @property
    def fate(self) -> str | None:
        """What the command's end means for the capture, in words; None where it ended well."""
        if self.ended is Ended.LIMIT:
            return "the command ran past the limit of the capture and was ended: what came later is not in it"
        if self.ended is Ended.INTERRUPTED:
            return "the capture was interrupted: what the command would have done later is not in it"
        if self.ended is Ended.SIGNAL:
            return f"a signal ended the command (exit code {self.exit_code}): the capture may lack its last part"
        if self.exit_code:
            return f"the command failed with exit code {self.exit_code}"
        return None


def is_captured(folder: Path) -> bool:
    """Return whether a folder is one of `fdprof capture`, whole or damaged."""
    return folder.is_dir() and (folder / _FILE).is_file()


def save(root: Path, name: str, taken: Path, captured: Captured) -> Path:
    """Move a capture, with what has its stem, into a folder of its own below `root`, and return that.

    The folder has this name, with -2 and so on where that is taken.  `taken` lies on `root`'s file system.
    """
    names = {each: each.name for each in _with_its_stem(taken)} | ({taken: _INSTEAD} if taken.name == _FILE else {})
    record = replace(captured, capture=names[taken])

    def fill(scratch: Path) -> None:
        write_json(scratch / _FILE, _document(record))
        for each, its_name in names.items():
            each.rename(scratch / its_name)

    return folders.make_unused(root, name, fill)


def load(folder: Path) -> Captured:
    """Return the record in a folder; InputError where it is damaged, or where its capture is not in the folder."""
    path = folder / _FILE
    document = read_json(path, _DAMAGED)
    with damage_in(path, _DAMAGED):
        version, kind = natural(document["schema_version"]), document["kind"]
        if kind != KIND:
            raise InputError(f"{path}: kind is {str(kind)[:40]!r}, expected {KIND!r}", _DAMAGED)
        if version != SCHEMA_VERSION:
            raise InputError(
                f"{path}: schema_version is {version}, this fdprof reads {SCHEMA_VERSION}",
                "read it with the fdprof that wrote it, or analyze the file in it by its own path",
            )
        record = Captured(
            tracer=text(document["tracer"]),
            tool=text(document["tool"]),
            command=_words(document["command"]),
            arguments=_words(document["arguments"]),
            scenario=_text_or_none(document["scenario"]),
            mode=_text_or_none(document["mode"]),
            started_utc=text(document["started_utc"]),
            exit_code=_exit_code(document["exit_code"]),
            ended=Ended(document["ended"]),
            capture=_name(document["capture"]),
            inflation=inflation_in(document["inflation"]),
            notes=_words(document["notes"]),
        )
    place = folder / record.capture
    if place.is_symlink() or not place.exists():
        raise InputError(f"{path} names a capture that is not in the folder: {record.capture}", _DAMAGED)
    if not place.is_dir():
        require_file(place, _DAMAGED)
    return record


def with_inflation(folder: Path, inflation: Inflation) -> None:
    """Write into a folder's record how much longer its steps are for having been traced."""
    write_json(folder / _FILE, _document(replace(load(folder), inflation=inflation)))


def described(capture: Capture, record: Captured) -> Capture:
    """Return the capture with what its record says of it: the inflation, and what limits it."""
    fate = () if record.fate is None else (record.fate,)
    return replace(
        capture,
        inflation=capture.inflation if record.inflation is None else record.inflation,
        limits=(*fate, *record.notes, *capture.limits),
    )


def _with_its_stem(taken: Path) -> list[Path]:
    """Return a capture, and what its tracer wrote under the same stem: a report in the tracer's own format, say."""
    beside = sorted(each for each in taken.parent.glob("*") if each.stem == taken.stem and each.name != _FILE)
    return [taken, *(each for each in beside if each != taken)]


def _document(record: Captured) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": KIND,
        "tracer": record.tracer,
        "tool": record.tool,
        "command": list(record.command),
        "arguments": list(record.arguments),
        "scenario": record.scenario,
        "mode": record.mode,
        "started_utc": record.started_utc,
        "exit_code": record.exit_code,
        "ended": record.ended.value,
        "capture": record.capture,
        "inflation": inflation_document(record.inflation),
        "notes": list(record.notes),
    }


def _words(value: Any) -> tuple[str, ...]:
    """Return texts fit for a terminal: a command's words may hold line ends, which stand escaped here."""
    words = entries(value)
    if not all(isinstance(word, str) for word in words):
        raise ValueError(f"{str(words)[:40]} where texts are expected")
    return tuple(printable(word) for word in words)


def _text_or_none(value: Any) -> str | None:
    return None if value is None else text(value)


def _name(value: Any) -> str:
    """Return the name of an entry of the folder, and never a path out of it."""
    name = text(value)
    if not 0 < len(name.encode()) <= _LONGEST_NAME or name in {".", "..", _FILE} or "/" in name:
        raise ValueError(f"capture is {name[:40]!r}, expected the name of a file or folder beside it")
    return name


def _exit_code(value: Any) -> int:
    code = natural(value)
    if code > _MAX_EXIT_CODE:
        raise ValueError(f"exit_code is {code}, expected 0 to {_MAX_EXIT_CODE}")
    return code


def inflation_document(inflation: Inflation | None) -> dict[str, Any] | None:
    """Return an inflation as it is kept on disk and shown; null: not measured."""
    if inflation is None:
        return None
    ends = inflation.interval
    return {
        "ratio": inflation.ratio,
        "interval": None if ends is None else list(ends),
        "how": printable(inflation.how),
    }


def inflation_in(value: Any) -> Inflation | None:
    """Return the inflation of a document, None for null; ValueError where there could be no such."""
    if value is None:
        return None
    document = mapping(value)
    how, interval = text(document["how"]), document["interval"]
    ends = [] if interval is None else entries(interval)
    ratios = [number(each) for each in (document["ratio"], *ends)]
    if len(ends) not in (0, 2) or min(ratios) <= 0 or (ends and ratios[1] > ratios[2]):
        raise ValueError("inflation: expected ratios above 0, and the two ends of an interval or null")
    return Inflation(ratios[0], (ratios[1], ratios[2]) if ends else None, how)
