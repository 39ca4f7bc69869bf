"""Entry point of `fdprof` and `python -m fdprof`."""

import os
import sys
from pathlib import Path

_INTERRUPTED = 130


def main() -> None:
    """Run the command line."""
    for number in (0, 1, 2):  # a command that is started, and the shell around nsys, need them open
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    # A closed standard stream is None in Python; printing to it must not be an error of fdprof's.
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open until the end
    try:
        from fdprof.cli.app import app  # here, so that Ctrl-C while it loads is no traceback

        app()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
