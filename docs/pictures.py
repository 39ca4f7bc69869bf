"""Draws docs/images/terminal-*.svg: the top of what two commands print on a terminal.

    python docs/pictures.py

The pictures need no font and no network: a viewer takes its own monospaced font.
"""

import os
import re
import shlex
import subprocess
import sys
from io import StringIO
from pathlib import Path

from rich.console import CONSOLE_SVG_FORMAT, Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

IMAGES = Path(__file__).parent / "images"
COMMANDS = {
    "terminal-run": "fdprof run stop_flag --mode sync --backend sim --no-save",
    "terminal-compare": "fdprof compare sync async --backend sim --no-save",
}
WIDTH, LINES = 96, 48
"""So much of a report as a screen shows."""

# The sixteen colours of a dark terminal.
THEME = TerminalTheme(
    (20, 22, 26),
    (220, 223, 228),
    [(60, 64, 72), (229, 83, 75), (87, 171, 90), (218, 170, 63), (83, 120, 222), (176, 101, 188), (57, 176, 190),
     (200, 204, 210)],
    [(110, 118, 129), (255, 147, 138), (107, 196, 109), (255, 204, 102), (108, 182, 255), (220, 189, 251),
     (86, 212, 221), (255, 255, 255)],
)  # fmt: skip

# Without the font that rich would have a viewer fetch.
FORMAT = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace("Fira Code, ", "")


def picture(command: str) -> str:
    """Return what a command prints in colours, as an SVG."""
    environ = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(WIDTH), "PYTHONIOENCODING": "utf-8"}
    environ.pop("NO_COLOR", None)
    program = [sys.executable, "-m", *shlex.split(command)]
    done = subprocess.run(program, env=environ, stdout=subprocess.PIPE, check=True)
    shown = "\n".join(done.stdout.decode().splitlines()[:LINES])
    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True, legacy_windows=False)
    console.print(Text.from_ansi(shown), soft_wrap=True)
    return console.export_svg(title=command, theme=THEME, code_format=FORMAT, unique_id="fdprof")


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    for name, command in COMMANDS.items():
        path = IMAGES / f"{name}.svg"
        path.write_text(picture(command), encoding="utf-8")
        print(f"wrote {path}: {path.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
