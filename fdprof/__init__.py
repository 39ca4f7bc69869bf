"""fdprof as a library: run loops, load saved runs, get their steps as a table.

The names below are imported at first use, so that `import fdprof` costs nothing.
"""

_HOMES = {
    "Extent": "fdprof.params",
    "FdprofError": "fdprof.errors",
    "LoopParams": "fdprof.params",
    "Policy": "fdprof.comparison",
    "Session": "fdprof.session",
    "__version__": "fdprof.version",
    "compare_runs": "fdprof.analysis.compare",
    "load": "fdprof.store",
    "open_backend": "fdprof.session",
    "result_of": "fdprof.analysis.results",
    "step_table": "fdprof.tables",
}

__all__ = sorted(name for name in _HOMES if name != "__version__")


def __getattr__(name: str) -> object:
    import importlib  # here: what is imported above could be interrupted before anything guards it

    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'fdprof' has no attribute {name!r}")
    attribute = "VERSION" if name == "__version__" else name
    return getattr(importlib.import_module(home), attribute)
