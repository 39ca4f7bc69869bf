"""Finds modes, scenarios, backends and reports by their file names and imports one only when it is used."""

import difflib
import importlib
import pkgutil
from typing import Any

from fdprof.errors import FdprofError, UsageError

# The attribute that a file of each folder must provide.
_PROVIDES = {"modes": "MODE", "scenarios": "SCENARIO", "backends": "BACKEND", "reports": "REPORT"}
# How a file name is shown: modes use hyphens as on the command line, the others keep their underscores.
_HYPHENS = frozenset({"modes"})


def names(kind: str) -> list[str]:
    """Return the names of all plugins of a kind, sorted; protocol.py and files starting with _ are none."""
    package = importlib.import_module(f"fdprof.{kind}")
    files = (module.name for module in pkgutil.iter_modules(package.__path__))
    return sorted(_shown(kind, name) for name in files if name != "protocol" and not name.startswith("_"))


def load(kind: str, name: str, others: tuple[str, ...] = ()) -> Any:
    """Return what the plugin file provides (MODE, SCENARIO, BACKEND or REPORT).

    `others` are names that the caller takes besides files.  UsageError with the nearest name when there is no such
    file; FdprofError when the file does not provide it.
    """
    known = names(kind)
    wanted = _shown(kind, name)
    if wanted not in known:
        choices = [*others, *known]
        near = difflib.get_close_matches(wanted.lower(), choices, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else f"choose one of: {', '.join(choices)}"
        raise UsageError(f"no {kind.removesuffix('s')} is named {name!r}", hint)
    module = importlib.import_module(f"fdprof.{kind}.{_file(kind, wanted)}")
    attribute = _PROVIDES[kind]
    if not hasattr(module, attribute):
        raise FdprofError(f"{module.__name__} provides no {attribute}", f"define {attribute} in that file")
    return getattr(module, attribute)


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
