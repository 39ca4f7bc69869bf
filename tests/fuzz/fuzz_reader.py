"""Feeds one reader bytes that atheris grows by coverage, through the whole way of `fdprof analyze`; see `make fuzz`.

    python tests/fuzz/fuzz_reader.py KIND FOLDER [options of libFuzzer]

KIND is one of hostile_files.GOOD.  Of a capture of several files the first byte says which one the rest replaces.  What
was worth keeping and what broke something lies in FOLDER/KIND; an input is run again by giving its path.
"""

import importlib.util
import shutil
import sys
from pathlib import Path
from types import ModuleType

import atheris

_LONGEST_BYTES = 64 << 10
_SLOWEST_S = 20
_MOST_MEMORY_MB = 2048


def _hostile() -> ModuleType:
    """Return tests/hostile_files.py, with what it imports of fdprof under coverage."""
    path = Path(__file__).parents[1] / "hostile_files.py"
    spec = importlib.util.spec_from_file_location("hostile_files", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with atheris.instrument_imports(include=["fdprof"]):
        spec.loader.exec_module(module)
        for name in module.plugins.names("importers"):
            module.plugins.load("importers", name)
        for name in ("json", "terminal"):
            module.plugins.load("reports", name)
    return module


def main(kind: str, folder: Path, options: list[str]) -> None:
    """Fuzz until libFuzzer's limits are reached; an input that breaks fdprof ends it with a traceback."""
    hostile = _hostile()
    kept = folder / kind
    kept.mkdir(parents=True, exist_ok=True)
    scratch = folder / f"{kind}-scratch"  # libFuzzer ends the process itself, so the next one clears up
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    good = hostile.write_good(kind, scratch)
    files = hostile.files_of(good)
    contents = [file.read_bytes() for file in files]
    for number, content in enumerate(contents):
        (kept / f"good-{number}").write_bytes(bytes([number]) + content if good.is_dir() else content)

    def run(data: bytes) -> None:
        number = data[0] % len(files) if good.is_dir() and data else 0
        files[number].write_bytes(data[1:] if good.is_dir() else data)
        try:
            hostile.outcome(good)
        finally:
            files[number].write_bytes(contents[number])

    limits = [
        f"-max_len={_LONGEST_BYTES}",
        f"-timeout={_SLOWEST_S}",
        f"-rss_limit_mb={_MOST_MEMORY_MB}",
        f"-artifact_prefix={kept}/broke-",
        "-print_final_stats=1",
    ]
    corpus = [] if any(not option.startswith("-") for option in options) else [str(kept)]
    atheris.Setup([sys.argv[0], *limits, *options, *corpus], run)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
