"""Folders that appear whole or not at all: filled beside their place and renamed."""

import errno
import itertools
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fdprof.errors import UsageError

PART = ".part-"
"""What the names of unfinished files and folders begin with: after a kill they are known by it."""


def make_unused(root: Path, name: str, fill: Callable[[Path], None]) -> Path:
    """Make a folder below `root` and return it; it has that name, with -2 and so on where that is taken."""
    with scratch_beside(root / name) as scratch:
        _fill(scratch, root / name, fill)
        for take in itertools.count(1):
            folder = root / (name if take == 1 else f"{name}-{take}")
            if not folder.exists() and _renamed(scratch, folder):
                return folder
    raise AssertionError("unreachable")


def make(folder: Path, fill: Callable[[Path], None]) -> bool:
    """Make a folder; return False when another process has made it meanwhile."""
    with scratch_beside(folder) as scratch:
        _fill(scratch, folder, fill)
        return _renamed(scratch, folder)


def _fill(scratch: Path, folder: Path, fill: Callable[[Path], None]) -> None:
    try:
        fill(scratch)
    except OSError as error:
        raise unwritable(folder, error) from error


def _renamed(scratch: Path, folder: Path) -> bool:
    """Give a finished folder its name; return False when another process has taken that after the last look."""
    try:
        scratch.rename(folder)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise unwritable(folder, error) from error
        return False
    return True


@contextmanager
def scratch_beside(folder: Path) -> Iterator[Path]:
    """Give an empty folder on the same file system as `folder`, and remove what is left of it; also when Ctrl-C comes.

    UsageError when it cannot be made.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = folder.parent / f"{PART}{secrets.token_hex(8)}"
        scratch.mkdir()
    except OSError as error:
        raise unwritable(folder, error) from error
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def unwritable(folder: Path, error: OSError) -> UsageError:
    return UsageError(
        f"cannot write {folder}: {error.strerror or error}",
        "choose a folder that can be written with --runs, or run with --no-save",
    )
