"""Runs a Python command under the profiler of a framework, which lives inside that Python."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fdprof import supervision
from fdprof.documents import read_json, write_json
from fdprof.errors import EnvironmentMissing, FdprofError, UsageError
from fdprof.tracers import _inside_python as inside
from fdprof.tracers._python_command import OTHER_TRACERS, PythonCommand, python_command
from fdprof.tracers.protocol import Request, Taken

_ASK_S = 60.0
"""How long a Python may take to say what it can import: a cold file system is slow, a hung one not waited for."""

_GRACE_S = 60.0
"""How long the trace may take to be written once the command is told to end; minutes are known of long recordings."""

_SAID = "said.json"

_FOUND, _NOT_FOUND = "fdprof: found", "fdprof: not found"
_QUESTION = (
    "import importlib.util, sys; spec = importlib.util.find_spec(sys.argv[1]); "
    f"print({_FOUND!r} if spec is not None and spec.origin else {_NOT_FOUND!r})"
)
"""Found, not imported: that takes seconds.  A folder that only has the name has no origin."""

_CHILDREN = "Child processes of the command are not profiled."
_OTHERS = "--with nsys records child processes too."


@dataclass(frozen=True, slots=True)
class PythonTracer:
    """The tracer of one framework: its profiler records from the framework's import to the end of the process."""

    tool: str
    framework: str  # the name that Python imports it by
    install: str
    prelude: str = ""

    def missing(self, request: Request) -> FdprofError | None:
        """Return why this request cannot be carried out here, None if it can."""
        part = None
        if request.capture_range is not None:
            part = f"the range {request.capture_range}"
        elif request.repeat > 1:
            part = f"{request.repeat} ranges"
        if part is not None:
            return UsageError(
                f"{self.tool} records a command from its start to its end, and cannot take {part} of it",
                "leave that out, or use --with nsys or --with fdprof",
            )
        try:
            command = python_command(request.command, request.environment)
        except UsageError as error:
            return UsageError(f"{self.tool} lives inside a Python process: {error}", error.hint)
        return self._missing_in(command, request.environment)

    def take(self, request: Request) -> Taken:
        """Run the command with the profiler in it, and return how it ended and the trace."""
        trace, scratch = request.folder / f"{self.framework}.json", request.folder / "inside"
        scratch.mkdir()
        try:
            outcome = supervision.run(
                request.command,
                limit_s=request.limit_s,
                environment=(*request.environment, *self._variables(request, trace, scratch)),
                quiet=request.quiet,
                grace_s=_GRACE_S,
                tell=request.progress,
            )
            said = scratch / _SAID
            state = read_json(said, "take the capture again") if said.exists() else {}
            state["in_a_child"] = Path(f"{said}{inside.IN_A_CHILD}").exists()
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        if state.get("state") == inside.FAILED:
            raise EnvironmentMissing(
                f"{state.get('tool', self.tool)} did not record: {state.get('error')}",
                f"does another profiler hold this process?  {OTHER_TRACERS}",
            )
        is_there = trace.is_file()
        return Taken(
            outcome=outcome,
            captures=(trace,) if is_there else (),
            tool=str(state.get("tool", self.tool)),
            arguments=request.command,
            notes=self._notes(state) if is_there else self._why_none(state),
        )

    def _variables(self, request: Request, trace: Path, scratch: Path) -> list[tuple[str, str]]:
        """Return the variables that bring a copy of our file into the command's Python."""
        folder, options = scratch / "path", scratch / "options.json"
        folder.mkdir()
        # Alone in its folder: what lies beside the original would hide the framework, whose name it has.
        shutil.copyfile(Path(inside.__file__), folder / "sitecustomize.py")
        paths = {"trace": trace, "said": scratch / _SAID, "unfinished": scratch / "unfinished.json"}
        write_json(options, {"framework": self.framework, **{name: str(at.resolve()) for name, at in paths.items()}})
        before = dict(request.environment).get("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
        path = os.pathsep.join([str(folder.resolve()), *([before] if before else [])])
        return [("PYTHONPATH", path), (inside.VARIABLE, str(options.resolve()))]

    def _missing_in(
        self, command: PythonCommand, environment: tuple[tuple[str, str], ...]
    ) -> EnvironmentMissing | None:
        """Return why that Python cannot import the framework."""
        words = [command.interpreter, *command.options, "-c", _QUESTION, self.framework]
        name = command.interpreter
        try:
            done = subprocess.run(
                words,
                env={**os.environ, **dict(environment)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_ASK_S,
                check=False,
            )
        except OSError as error:
            return EnvironmentMissing(f"cannot run {name}: {error.strerror or error}", "is it a Python?")
        except subprocess.TimeoutExpired:
            return EnvironmentMissing(
                f"{name} did not say within {_ASK_S:.0f} s whether it has {self.framework}",
                f"try: {name} -c 'import {self.framework}'",
            )
        answer = done.stdout.decode(errors="replace").strip()
        if answer.endswith(_FOUND):
            return None
        if answer.endswith(_NOT_FOUND):
            return EnvironmentMissing(
                f"{name} has no {self.framework}, whose profiler was asked for",
                f"{name} -m {self.install}; or run the command with a Python that has it; {OTHER_TRACERS}",
            )
        last = (done.stderr.decode(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
        return EnvironmentMissing(
            f"{name} does not run Python code (exit code {done.returncode}): {last:.200}", "does it start by itself?"
        )

    def _notes(self, state: dict[str, Any]) -> tuple[str, ...]:
        """Return what a trace that was written does not show."""
        notes = [_CHILDREN]
        name = self.framework
        if state.get("own_profiler"):
            notes.append(f"The command started a {self.tool} of its own: this capture ends there.")
        if state.get("cuda") is False:
            notes.append(f"This {name} sees no CUDA device: only its operators on the host were recorded.")
        elif state.get("sync_events") is False:
            notes.append(f"This {name} records no synchronisation events: waits are known by their calls only.")
        if state.get("all_threads") is False:
            notes.append(f"This {name} records the operators and marks of one thread, and the CUDA calls of all.")
        return tuple(notes)

    def _why_none(self, state: dict[str, Any]) -> tuple[str, ...]:
        """Return why there is no trace."""
        came = state.get("state")
        if came is None:
            return (f"{self.tool} was not reached: the command's Python did not run what PYTHONPATH gave it to run.",)
        if came == inside.WRITING:
            return ("The command was ended while its trace was written: a shorter run is written sooner.",)
        if came == inside.RECORDING or not state.get("exited"):
            return (
                "The trace is written when Python ends in order.",
                "This process was killed, called os._exit, or became another program.",
            )
        if came == inside.LOADED:
            return (f"The process that was started did not import {self.framework}.", _CHILDREN, _OTHERS)
        if state["in_a_child"]:
            return ("The process that was started used no CUDA, and a child process did.", _CHILDREN, _OTHERS)
        return ("The process that was started used no CUDA.", _CHILDREN, _OTHERS)
