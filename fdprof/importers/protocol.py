"""What an importer offers: to say whether a file is of its format, and to read it into a Capture."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from fdprof.capture import Capture

HEAD_BYTES = 4096
"""How much of a file `sniff` is given; a gzip file's head is of what it holds."""

Progress = Callable[[str], None]


class Importer(Protocol):
    """One format.  `IMPORTER` in each file of this folder is an object with these members."""

    format: str  # the format in words, for messages

    def sniff(self, path: Path, head: bytes) -> bool:
        """Return whether this is a file (or folder, whose head is empty) of the format, by its content alone."""

    def read(self, path: Path, progress: Progress) -> Capture:
        """Return the capture; InputError, naming the file, the place in it and what to do, where it cannot be used.

        `progress` takes a line of text now and then.
        """
