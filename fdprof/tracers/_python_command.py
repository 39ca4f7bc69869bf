"""Understands a command that runs Python: which interpreter runs it, and whether a start-up file of ours gets there.

Starts nothing.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fdprof.errors import UsageError
from fdprof.supervision import require_command

_INTERPRETER = re.compile(r"python(\d+(\.\d+)?)?t?")
_HEAD_BYTES = 4096
_WITH_VALUE = "cmWX"  # short options whose value is the rest of the word, or the next one
_LONG_WITH_VALUE = "--check-hash-based-pycs"
_CLOSED = {
    "I": "keeps PYTHONPATH out (-I)",
    "E": "keeps PYTHONPATH out (-E)",
    "S": "starts Python without its start-up files (-S)",
}
_NOTHING_RUNS = frozenset("hV?")

_ACCEPTED = (
    "a Python command is: python SCRIPT, python -m MODULE, python -c CODE, or a script whose first line names Python"
)
OTHER_TRACERS = "--with nsys and --with fdprof take any command"


@dataclass(frozen=True, slots=True)
class PythonCommand:
    """A command that runs Python: the path of its interpreter, and those of its options that choose what it imports."""

    interpreter: str
    options: tuple[str, ...] = ()


def python_command(command: Sequence[str], environment: Sequence[tuple[str, str]] = ()) -> PythonCommand:
    """Return the Python command in these words; UsageError, saying what works, where they are none.

    `environment` are the variables that the command gets besides this process's, PATH perhaps among them.
    """
    program, search = command[0], dict(environment).get("PATH")
    found = require_command(program, environment)
    if is_interpreter(program):
        return PythonCommand(found, _options(command[1:], shlex.join(command)))
    interpreter, letters = _of_first_line(_first_line(Path(found)), search)
    if interpreter is None:
        raise UsageError(f"{program} is no Python command: its first line does not name Python", _otherwise())
    return PythonCommand(interpreter, _checked(letters, f"the first line of {found}"))


def is_interpreter(program: str) -> bool:
    """Return whether a program is Python by its name: python, python3, python3.11."""
    return _INTERPRETER.fullmatch(Path(program).name) is not None


def _otherwise() -> str:
    return f"{_ACCEPTED}; {OTHER_TRACERS}"


def _options(words: Sequence[str], shown: str) -> tuple[str, ...]:
    """Return the options that choose what is imported; UsageError where no program follows, or one keeps us out."""
    letters: list[str] = []
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        if word.startswith("--"):
            if word != _LONG_WITH_VALUE or not waiting:
                break
            waiting.pop(0)
        elif not word.startswith("-") or word == "-":
            if word == "-":
                break
            return _checked(letters, shown)
        else:
            cluster, ends, takes = _cluster(word)
            letters += cluster
            if takes and not waiting:
                break
            if ends:
                return _checked(letters, shown)
            if takes:
                waiting.pop(0)
    raise UsageError(f"{shown} names no program to run", _otherwise())


def _cluster(word: str) -> tuple[list[str], bool, bool]:
    """Return the letters of a word such as -Bum, whether it names the program, and whether the next word belongs to it.

    The value may stand in the word itself: -Wignore, -mpackage.
    """
    letters: list[str] = []
    for place, letter in enumerate(word[1:], start=1):
        letters.append(letter)
        if letter in _WITH_VALUE:
            return letters, letter in "cm", place == len(word) - 1
    return letters, False, False


def _checked(letters: Sequence[str], shown: str) -> tuple[str, ...]:
    for letter in letters:
        if letter in _NOTHING_RUNS:
            raise UsageError(f"{shown} runs no program (-{letter})", _otherwise())
        if letter in _CLOSED:
            raise UsageError(
                f"{shown} {_CLOSED[letter]}, and the profiler is started by a start-up file on PYTHONPATH",
                f"leave -{letter} out; {OTHER_TRACERS}",
            )
    return ("-s",) if "s" in letters else ()


def _first_line(path: Path) -> list[str]:
    """Return the words behind #! of a script, and those of the line after it where that restarts it; none otherwise."""
    try:
        with path.open("rb") as file:
            lines = file.read(_HEAD_BYTES).splitlines()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}", _otherwise()) from error
    if not lines or not lines[0].startswith(b"#!"):
        return []
    words = os.fsdecode(lines[0][2:]).split()
    # pip writes a shell's line where the interpreter's path is too long for the kernel, or holds a space.
    if len(lines) > 1 and lines[1].startswith(b"'''exec'"):
        try:
            return shlex.split(os.fsdecode(lines[1]).removeprefix("'''exec'"))
        except ValueError:
            return words
    return words


def _of_first_line(words: list[str], search: str | None) -> tuple[str | None, list[str]]:
    """Return the interpreter that the first line names, and the letters of its options."""
    if words and Path(words[0]).name == "env":
        words = [word.removeprefix("-S") for word in words[1:] if word not in ("-S", "--split-string")]
        words = words[next((at for at, word in enumerate(words) if "=" not in word), len(words)) :]
    if not words or not is_interpreter(words[0]):
        return None, []
    letters: list[str] = []
    for word in words[1:]:
        if not word.startswith("-") or word.startswith("--"):
            break
        letters += _cluster(word)[0]
    return shutil.which(words[0], path=search) or words[0], letters
