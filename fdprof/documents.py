"""JSON documents on disk: written whole or not at all, and read with every entry checked.

What a document holds is its owner's business; here are the checks, and errors that name the file.
"""

import errno
import json
import math
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from fdprof.errors import InputError

Value = TypeVar("Value")


def write_json(path: Path, document: dict[str, Any], replaces: bool = True) -> None:
    """Write a document so that it appears whole or not at all; as `write_bytes`."""
    write_bytes(path, (json.dumps(document, indent=1) + "\n").encode(), replaces)


def write_text(path: Path, text: str) -> None:
    """Write a file in UTF-8 so that it appears whole or not at all."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes, replaces: bool = True) -> None:
    """Write a file so that it appears whole or not at all; one that is replaced keeps its permissions.

    Without `replaces` FileExistsError where there is one, whenever it came.
    """
    path = path.resolve()  # a link is written through, not replaced
    scratch = path.parent / f".part-{secrets.token_hex(8)}"
    try:
        with scratch.open("xb") as file:
            file.write(content)
        if not replaces:
            _give_name(scratch, path)
        else:
            if path.exists():
                scratch.chmod(stat.S_IMODE(path.stat().st_mode))
            scratch.replace(path)
    finally:  # also when Ctrl-C comes
        scratch.unlink(missing_ok=True)


def _give_name(scratch: Path, path: Path) -> None:
    """Give a file a name that nothing has; FileExistsError where something has it."""
    try:
        os.link(scratch, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links: a look has to do
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        scratch.replace(path)


def read_json(path: Path, hint: str) -> dict[str, Any]:
    """Return the object in a file; InputError, with the hint, when there is none."""
    require_file(path, hint)
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"cannot read {path}: {error}", hint) from error
    if not isinstance(document, dict):
        raise InputError(f"{path} holds a {type(document).__name__}, expected an object", hint)
    return document


def require_file(path: Path, hint: str) -> None:
    """Raise InputError when something other than a file has a file's name: a pipe would be waited for."""
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is no regular file", hint)


@contextmanager
def damage_in(path: Path, hint: str) -> Iterator[None]:
    """Turn what a wrong type or a missing entry raises into an InputError that names the file."""
    try:
        yield
    except KeyError as error:
        raise InputError(f"{path} has no {error}", hint) from error
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path}: {error}", hint) from error


def entry(document: Any, name: str, convert: Callable[[Any], Value]) -> Value:
    """Return an entry of an object, converted; a ValueError or TypeError of that names the entry."""
    if not isinstance(document, dict):
        raise ValueError(f"{str(document)[:40]!r} where an object is expected")
    value = document[name]
    try:
        return convert(value)
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{name}: {error}") from error


def mapping(value: Any) -> dict[str, Any]:
    """Return an object whose names can be printed; ValueError unless it is one."""
    if not isinstance(value, dict):
        raise ValueError(f"{str(value)[:40]!r} where an object is expected")
    return {text(name): each for name, each in value.items()}


def natural(value: Any) -> int:
    """Return a count or a time; ValueError unless it is an integer from 0 to 2**63 - 1."""
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(f"{str(value)[:40]!r} where an integer >= 0 is expected")
    return value


def number(value: Any) -> float:
    """Return a number; ValueError unless it is one, finite, and below 2**63 if it is whole."""
    if type(value) not in (int, float) or (abs(value) >= 2**63 if type(value) is int else not math.isfinite(value)):
        raise ValueError(f"{str(value)[:40]!r} where a number is expected")
    return float(value)


def text(value: Any) -> str:
    """Return a string without control characters, which could drive a terminal."""
    if not isinstance(value, str) or not value.isprintable():
        raise ValueError(f"{str(value)[:40]!r} where printable text is expected")
    return value


def boolean(value: Any) -> bool:
    """Return a truth value; ValueError unless it is one."""
    if not isinstance(value, bool):
        raise ValueError(f"{str(value)[:40]!r} where true or false is expected")
    return value


def entries(value: Any) -> list[Any]:
    """Return a list; ValueError unless it is one."""
    if not isinstance(value, list):
        raise ValueError(f"{str(value)[:40]!r} where a list is expected")
    return value
