"""Reads a folder that `fdprof run` saved, as a Capture like any other."""

from pathlib import Path

from fdprof import store
from fdprof.capture import Capture
from fdprof.importers.protocol import Progress
from fdprof.run_capture import capture_of


class RunImporter:
    """fdprof's own runs."""

    format = "run folder of fdprof"

    def sniff(self, path: Path, head: bytes) -> bool:
        return path.is_dir() and store.is_run(path)

    def read(self, path: Path, progress: Progress) -> Capture:
        return capture_of(store.load_one(path, "analyze one of its sides"))


IMPORTER = RunImporter()
