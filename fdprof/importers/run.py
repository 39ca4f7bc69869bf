"""Reads a folder that `fdprof run` saved, as a Capture like any other."""

from pathlib import Path

from fdprof import store
from fdprof.capture import Capture
from fdprof.errors import InputError
from fdprof.importers.protocol import Progress
from fdprof.run_capture import capture_of


class RunImporter:
    """fdprof's own runs."""

    format = "run folder of fdprof"

    def sniff(self, path: Path, head: bytes) -> bool:
        return path.is_dir() and store.is_run(path)

    def read(self, path: Path, progress: Progress) -> Capture:
        sides = store.load_any(path)
        if len(sides) > 1:
            sides_of = " and ".join(str(entry) for entry in store.sides_of(path))
            raise InputError(f"{path} is a comparison: two runs", f"analyze one of its sides: {sides_of}")
        if not sides[0].blocks:
            raise InputError(f"{path} holds no finished block", "it was interrupted; record it again")
        return capture_of(sides[0])


IMPORTER = RunImporter()
