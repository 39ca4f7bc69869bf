"""Processes that run blocks when they are told to, bare or traced for their whole life, and the other end of them.

usage: python benchmarks/turn_workers.py NAME SOCKET LOOP        what collector_beside_nsys.py starts
"""

import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turns import Timed, timed_block, timed_of

from fdprof.errors import FdprofError, ScenarioFailed
from fdprof.model import DeviceWork
from fdprof.params import Extent, LoopParams
from fdprof.session import Session, open_backend

MODE = "overlap"
SETTLING = 3
START_S, BLOCK_S, END_S = 180.0, 60.0, 150.0
"""What the start of a process, a block and a process's end, nsys's report included, may take."""

BARE, NSYS = "bare", "nsys"
OURS = {
    "nvtx": {"FDPROF_COLLECT_CUDA": "0"},
    "fdprof": {},
    "fdprof-no-flush": {"FDPROF_COLLECT_FLUSH_MS": "0"},
    "fdprof-no-driver": {"FDPROF_COLLECT_DRIVER": "0"},
}
"""Our collector as `fdprof capture` brings it into a process, and with less: ranges alone; without the thread that
writes each second what there is; without calls into the driver."""


# The process that runs blocks


def work(name: str, address: str, loop: Mapping[str, Any]) -> int:
    """Run blocks as the other end of the socket asks for them; return the exit code."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        file = connection.makefile("rw", encoding="utf-8")

        def say(**words: Any) -> None:
            file.write(json.dumps(words) + "\n")
            file.flush()

        try:
            backend, _ = open_backend(loop["backend"], 30.0)
            params = LoopParams(device_us=200, schedule_us=0, save_output_us=0, kernels=loop["kernels"])
            say(worker=name)
            given = json.loads(file.readline() or "null")  # one at a time: the device is busy with one process's work
            if given is None:
                return 1
            work = None if given["work"] is None else DeviceWork(**given["work"])
            extent = Extent(steps=loop["steps"], warmup=loop["warmup"])
            session = Session(backend, "stop_flag", params, extent, work=work)
            run = session.new_run(MODE)
            begun = sum(timed_block(session, run)[0].begun for _ in range(SETTLING))
            say(
                work=dataclasses.asdict(session.work),
                listens=run.environment.nvtx,
                environment=dataclasses.asdict(run.environment),
            )
            while (line := file.readline().strip()) not in ("", "end"):
                assert line == "block"
                timed, _ = timed_block(session, run)
                begun += timed.begun
                say(block=timed.document())
            if line:
                say(begun=begun)
        except FdprofError as error:
            say(worker=name, error=f"{error}" + (f" ({error.hint})" if error.hint else ""))
            return error.exit_code
    return 0


# The process that gives the turns


@dataclass(slots=True)
class Worker:
    """A process that runs blocks. `kind` is what traces it."""

    name: str
    kind: str
    folder: Path
    process: subprocess.Popen[bytes]
    connection: socket.socket | None = None
    file: Any = None
    begun: int = 0

    def ask(self, words: str, limit_s: float = BLOCK_S) -> dict[str, Any]:
        """Return the answer to a line; ScenarioFailed where there is none, or it is an error."""
        assert self.connection is not None
        self.connection.settimeout(limit_s)
        try:
            self.file.write(words + "\n")
            self.file.flush()
            line = self.file.readline()
        except OSError as error:
            raise ScenarioFailed(f"{self.name} does not answer: {error}; {self.said()}") from error
        answer: dict[str, Any] = json.loads(line) if line else {"error": f"it ended: {self.said()}"}
        if "error" in answer:
            raise ScenarioFailed(f"{self.name}: {answer['error']}")
        return answer

    def block(self) -> Timed:
        return timed_of(self.ask("block")["block"])

    def said(self) -> str:
        """Return the last line that the process wrote."""
        log = self.folder / "log"
        lines = log.read_text(encoding="utf-8", errors="replace").split("\n") if log.exists() else []
        return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "it said nothing")

    def close(self) -> None:
        if self.connection is not None:
            with contextlib.suppress(OSError):
                self.file.close()
            self.connection.close()
            self.connection = None


class Workers:
    """One set of processes: started together, heard one at a time, ended together."""

    def __init__(self, folder: Path, loop: Mapping[str, Any], missing: dict[str, str], notes: list[str]) -> None:
        """Make the folder; to `missing` and `notes` is added why a process is not there, and what there is to say."""
        self._folder, self._loop = folder, loop
        self._missing, self._notes = missing, notes
        folder.mkdir()
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(folder / "socket"))
        self._server.listen(64)
        self.all: list[Worker] = []

    def start(self, kind: str, name: str) -> None:
        """Start a process; EnvironmentMissing where what is to trace it is not here."""
        folder = self._folder / name.replace(" ", "-")
        (folder / "tmp").mkdir(parents=True)
        own = (sys.executable, str(Path(__file__).resolve()), name, str(self._folder / "socket"))
        command, variables = _traced(kind, (*own, json.dumps(self._loop)), folder)
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                command,
                env={**os.environ, **variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.all.append(Worker(name, kind, folder, process))

    def hear(self) -> None:
        """Wait until each process is there; what does not come is left out."""
        waited = {worker.name: worker for worker in self.all}
        deadline = time.monotonic() + START_S
        self._server.settimeout(1.0)
        while waited and time.monotonic() < deadline:
            try:
                connection, _ = self._server.accept()
            except TimeoutError:
                for name in [name for name, worker in waited.items() if worker.process.poll() is not None]:
                    self._drop(waited.pop(name), "it ended before it had begun")
                continue
            connection.settimeout(START_S)
            file = connection.makefile("rw", encoding="utf-8")
            try:
                hello = json.loads(file.readline() or "{}")
            except OSError as error:
                hello = {"error": str(error)}
            worker = waited.pop(hello.get("worker", ""), None)
            if worker is None or "error" in hello:
                connection.close()
                if worker is not None:
                    self._drop(worker, hello["error"])
                continue
            worker.connection, worker.file = connection, file
        for worker in waited.values():
            self._drop(worker, f"it did not start within {START_S:.0f} s")

    def _drop(self, worker: Worker, why: str) -> None:
        self._missing[worker.name] = f"{why} (its last line: {worker.said()})"
        worker.close()
        _end(worker.process)
        self.all.remove(worker)

    def warm(self, work: Mapping[str, int] | None) -> tuple[Mapping[str, int] | None, dict[str, Any]]:
        """Let each process run its first blocks, the bare ones first; return a step's device work, and the machine.

        A bare process to whose ranges something listens is left out.
        """
        environment: dict[str, Any] = {}
        for worker in sorted(self.all, key=lambda each: each.kind != BARE):
            try:
                answer = worker.ask(json.dumps({"work": work}), START_S)
            except ScenarioFailed as error:
                self._drop(worker, str(error))
                continue
            if worker.kind == BARE and answer["listens"]:
                self._drop(worker, "it is not bare: something listens to its NVTX ranges")
                continue
            if worker.kind != BARE and not answer["listens"]:
                self._notes.append(f"nothing listens to the ranges of {worker.name}")
            work = work or answer["work"]
            environment = environment or answer["environment"]
        return work, environment

    def end(self) -> None:
        """Have the processes end by themselves, which nsys takes a while for."""
        for worker in self.all:
            with contextlib.suppress(ScenarioFailed):
                worker.begun = worker.ask("end").get("begun", 0)  # else of a block that nobody waited for
            worker.close()

    def finish(self) -> None:
        """Wait until they have ended; end those that have not."""
        deadline = time.monotonic() + END_S
        for worker in self.all:
            try:
                code = worker.process.wait(max(deadline - time.monotonic(), 0.1))
                if code:
                    self._notes.append(f"{worker.name} ended with exit code {code}: {worker.said()}")
            except subprocess.TimeoutExpired:
                self._notes.append(f"{worker.name} did not end within {END_S:.0f} s and was ended")
                _end(worker.process)

    def close(self) -> None:
        self._server.close()
        for worker in self.all:
            worker.close()
            _end(worker.process)


def _traced(kind: str, command: Sequence[str], folder: Path) -> tuple[Sequence[str], dict[str, str]]:
    """Return the command and the variables with which a process is traced as `fdprof capture` would trace it."""
    if kind == BARE:
        return command, {}
    if kind == NSYS:
        from fdprof.nsys_tool import profile_options, require_nsys
        from fdprof.tracers._nsys_session import COMMON, known

        nsys = require_nsys()
        wanted = ("--trace=cuda,nvtx", *COMMON, "--sample=none", "--cuda-graph-trace=graph")
        options = known(wanted, profile_options(nsys))
        output = f"--output={folder / 'report'}"
        return (str(nsys.path), "profile", *options, output, *command), {"TMPDIR": str(folder / "tmp")}
    from fdprof.ops.collector.native import environment

    (folder / "recordings").mkdir()
    variables = environment(folder / "recordings", cuda=kind != "nvtx")
    return command, {**variables, "FDPROF_COLLECT_GRAPH": "graph", **OURS[kind]}


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and what shares its session, if it runs still."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)


if __name__ == "__main__":
    sys.exit(work(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))
