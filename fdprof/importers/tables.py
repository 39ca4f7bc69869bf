"""Reads the folder of tables that the collector's captures are kept in."""

from pathlib import Path

from fdprof.capture import Capture
from fdprof.capture_store import holds_capture, load_capture
from fdprof.importers.protocol import Progress


class TablesImporter:
    """Captures of fdprof's own collector."""

    format = "capture tables of fdprof's collector"

    def sniff(self, path: Path, head: bytes) -> bool:
        return path.is_dir() and holds_capture(path)

    def read(self, path: Path, progress: Progress) -> Capture:
        return load_capture(path)


IMPORTER = TablesImporter()
