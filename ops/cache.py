"""Keeps what was compiled: one folder a build, named by a hash of all that shapes it.

A build appears there whole or not at all, however many processes build and whichever is killed.
"""

import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fdprof.errors import EnvironmentMissing

CACHE_VARIABLE = "FDPROF_CACHE_DIR"
_MANIFEST = "build.json"


def cache_folder() -> Path:
    """Return the folder of all builds: $FDPROF_CACHE_DIR, or fdprof below $XDG_CACHE_HOME or ~/.cache."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen).resolve()  # processes that change their folder are given paths in it
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "fdprof"
    except RuntimeError as error:
        raise EnvironmentMissing(f"no folder for the built ops: {error}", f"set {CACHE_VARIABLE}") from error


def whole(library: Path) -> Path | None:
    """Return the library if it is in the cache, whole; None otherwise."""
    try:
        manifest = json.loads((library.parent / _MANIFEST).read_text(encoding="utf-8"))
        is_whole = library.stat().st_size == manifest["size_bytes"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return library if is_whole else None


def build_once(library: Path, compile_into: Callable[[Path], None], about: Mapping[str, Any], timeout_s: float) -> Path:
    """Return the library, made by `compile_into(path)` if the cache has none; `about` is kept beside it.

    The timeout bounds the wait for another process that builds the same.  Raises EnvironmentMissing if it passes, if
    the cache cannot be written, and what `compile_into` raises.
    """
    final = library.parent
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        with _lock(final.parent / f"{final.name}.lock", timeout_s):
            found = whole(library)  # another process may have built it while this one waited
            if found is not None:
                return found
            # Whoever left these was killed: this process holds the lock.
            for left in (*final.parent.glob(f".{final.name}-*"), final):
                shutil.rmtree(left, ignore_errors=True)
            staging = Path(tempfile.mkdtemp(prefix=f".{final.name}-", dir=final.parent))
            try:
                compile_into(staging / library.name)
                manifest = {"size_bytes": (staging / library.name).stat().st_size, **about}
                (staging / _MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
                staging.rename(final)
            finally:
                shutil.rmtree(staging, ignore_errors=True)
    except OSError as error:
        raise EnvironmentMissing(
            f"the ops cannot be built into the cache {final.parent}: {error}",
            f"make the folder writable, or set {CACHE_VARIABLE} to one that is",
        ) from error
    return library


@contextmanager
def _lock(path: Path, timeout_s: float) -> Iterator[None]:
    """Hold the lock file; the system drops the lock of a killed process."""
    deadline = time.monotonic() + timeout_s
    with path.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    raise EnvironmentMissing(
                        f"another process has been building the ops for {timeout_s:g} s (lock {path})",
                        "wait for it, or end it",
                    ) from error
            time.sleep(0.1)
        yield
