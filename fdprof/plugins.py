"""Finds modes, scenarios, backends and the other plugins by their file names; imports one when it is used."""

import difflib
import importlib
import importlib.util
import pkgutil
import sys
import traceback
import zlib
from pathlib import Path
from types import ModuleType
from typing import Any

from fdprof.errors import FdprofError, UsageError

# The attribute that a file of each folder must provide.
_PROVIDES = {
    "modes": "MODE",
    "scenarios": "SCENARIO",
    "backends": "BACKEND",
    "reports": "REPORT",
    "faults": "FAULT",
    "importers": "IMPORTER",
    "tracers": "TRACER",
}
# How a file name is shown: modes and faults use hyphens as on the command line, the others keep their underscores.
_HYPHENS = frozenset({"modes", "faults"})


def names(kind: str) -> list[str]:
    """Return the names of all plugins of a kind, sorted; protocol.py and files starting with _ are none."""
    package = importlib.import_module(f"fdprof.{kind}")
    files = (module.name for module in pkgutil.iter_modules(package.__path__))
    return sorted(_shown(kind, name) for name in files if name != "protocol" and not name.startswith("_"))


def load(kind: str, name: str, others: tuple[str, ...] = ()) -> Any:
    """Return what the plugin file provides (MODE, SCENARIO, BACKEND, REPORT, FAULT, IMPORTER or TRACER).

    A scenario may also be named by the path of a user's own file.  `others` are names that the caller takes besides
    files.  UsageError with the nearest name when there is no such file; FdprofError when the file does not provide it.
    """
    if kind == "scenarios" and is_path(name):
        return _provided(_module_of(Path(name)), kind, name)
    known = names(kind)
    wanted = _shown(kind, name)
    if wanted not in known:
        choices = [*others, *known]
        near = difflib.get_close_matches(wanted.lower(), choices, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else f"choose one of: {', '.join(choices)}"
        raise UsageError(f"no {kind.removesuffix('s')} is named {name!r}", hint)
    return _provided(importlib.import_module(f"fdprof.{kind}.{_file(kind, wanted)}"), kind, name)


def is_path(name: str) -> bool:
    """Return whether a scenario is named by the path of its file."""
    return name.endswith(".py") or "/" in name


def _provided(module: ModuleType, kind: str, name: str) -> Any:
    attribute = _PROVIDES[kind]
    if not hasattr(module, attribute):
        kind_of_error = UsageError if is_path(name) else FdprofError
        shown = name if is_path(name) else module.__name__
        raise kind_of_error(f"{shown} provides no {attribute}", f"define {attribute} in that file")
    return getattr(module, attribute)


def _module_of(path: Path) -> ModuleType:
    """Return the module of a user's file, the same one each time; UsageError where there is none to be parsed."""
    name = f"fdprof_user_{path.stem}_{zlib.crc32(str(path.resolve()).encode()):08x}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if not path.is_file() or spec is None or spec.loader is None:
        what = "does not exist" if not path.exists() else "is a folder" if path.is_dir() else "is no Python file"
        raise UsageError(f"{path} {what}", "give the path of a .py file that defines SCENARIO")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    is_whole = False
    try:
        spec.loader.exec_module(module)
        is_whole = True
    except SyntaxError as error:
        raise UsageError(f"{path}, line {error.lineno}: SyntaxError: {error.msg}", "correct the file") from error
    finally:
        if not is_whole:
            del sys.modules[name]
    return module


def line_in(error: BaseException, path: Path) -> int | None:
    """Return the last line of the file that the error came through."""
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno for frame in reversed(frames) if Path(frame.filename).name == path.name), None)


def _shown(kind: str, name: str) -> str:
    shown = name.rstrip("_")
    return shown.replace("_", "-") if kind in _HYPHENS else shown.replace("-", "_")


def _file(kind: str, shown: str) -> str:
    """Return the module name of a shown name: Python's own words carry a trailing underscore (async_.py, json_.py)."""
    package = importlib.import_module(f"fdprof.{kind}")
    for module in pkgutil.iter_modules(package.__path__):
        if _shown(kind, module.name) == shown:
            return module.name
    raise AssertionError(shown)
