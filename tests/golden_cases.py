"""The results that the golden files show, one small case each, the same on every machine.  Tests take them as `cases`.

Runs are of the simulator in virtual time with round, made-up costs, captures are files of tests/data; what a machine
would put in (its name, its processor, the time) is fixed here.
"""

import gzip
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from unittest import mock

from fdprof.reports.protocol import Analyses, ComparisonResult, Reportable

from fdprof import plugins
from fdprof.analysis.capture_result import CaptureResult, analyze
from fdprof.analysis.compare import compare
from fdprof.analysis.inflation import BLOCKS, ROUNDS, Condition, Cost, OverheadResult
from fdprof.analysis.results import result_of
from fdprof.analysis.sides import side_of_capture, sides_of_runs
from fdprof.analysis.steps import Choice
from fdprof.backends.sim import SimBackend
from fdprof.capture import Inflation
from fdprof.comparison import Estimate, Policy, Verdict
from fdprof.imports import import_capture
from fdprof.model import Run
from fdprof.params import Extent
from fdprof.session import Session

_DATA = Path(__file__).parent / "data" / "h200-2026-11-30"

HOSTILE = (
    "<script>window.__pwned = 1</script>",
    "gemm<float, 'a' | \"b\"> & co; `rm` *bold* _it_ [x](http://example.com) @user #12",
    "\x1b[31mred\x1b[0m\x07",
    "\u202egnirts\u202c",
    "核心\u3000カーネル 🚀👩\u200d👩\u200d👧 e\u0301",
    '=HYPERLINK("http://example.com")',
    "name, with commas\nand a line\r\nand a tab\t",
    "</script><!--",
    "k" * 4_000,
)
"""Names that a capture may hold."""


class Cases:
    """Makes each case once; `names` are those of all."""

    def __init__(self, build: ModuleType) -> None:
        self._build = build
        self._made: dict[str, Reportable] = {}
        self._makers: dict[str, Callable[[], Reportable]] = {
            "run": lambda: result_of(self.run("sync")),
            "run_interrupted": lambda: result_of(replace(self.run("overlap"), interrupted=True)),
            "run_wrong": lambda: result_of(self.run("unfenced")),
            "run_one_step": lambda: result_of(self.run("sync", steps=1)),
            "comparison": self._comparison,
            "comparison_not_comparable": self._not_comparable,
            "comparison_wrong": self._wrong,
            "comparison_captures": self._captures,
            "comparison_baseline_file": self._baseline_file,
            "analysis": lambda: self.analysis("stop_flag_sync"),
            "analysis_inflated": self._inflated,
            "analysis_no_device": self._no_device,
            "analysis_hostile": self._hostile,
            "analyses": lambda: Analyses((self.analysis("stop_flag_sync"), self.analysis("stop_flag_overlap"))),
            "overhead": self._overhead,
        }

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._makers)

    def __getitem__(self, name: str) -> Reportable:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def run(self, *modes: str, steps: int = 12, blocks: int = 2, call: str = "a call", **params: object) -> Run:
        """Return the last of the runs of these modes, whose blocks took turns on one simulator."""
        return self.runs(*modes, steps=steps, blocks=blocks, call=call, **params)[-1]

    def runs(self, *modes: str, steps: int = 12, blocks: int = 2, call: str = "a call", **params: object) -> list[Run]:
        with mock.patch("fdprof.backends.sim.load_profile", lambda name: self._build.round_profile()):
            backend = SimBackend(30)
        made = plugins.load("scenarios", "stop_flag").params_type(**params)
        session = Session(backend, "stop_flag", made, Extent(steps=steps, warmup=3))
        sides = [session.new_run(mode) for mode in modes]
        for block in range(blocks):
            for at, mode in enumerate(modes):
                recorded = replace(session.block(mode, block), position=block * len(modes) + at)
                sides[at] = replace(sides[at], blocks=(*sides[at].blocks, recorded))
        return [replace(session.with_drawn_work(side), **self._fixed(side.mode, call)) for side in sides]

    def _fixed(self, mode: str, call: str) -> dict[str, object]:
        return {
            "id": f"a-run-{mode}",
            "call": call,
            "created": "2026-11-30T00:00:00+00:00",
            "environment": replace(self._build.ENVIRONMENT, gpu="simulated: round costs", profile="round"),
        }

    def _compared(self, runs: list[Run], policy: Policy) -> ComparisonResult:
        (first, ours), (second, theirs) = sides_of_runs(runs)
        return ComparisonResult(compare(first, second, policy), ours, theirs)

    def _comparison(self) -> Reportable:
        policy = Policy(fail_if=frozenset({Verdict.SLOWER}), max_ratio=0.9)
        return self._compared(self.runs("sync", "async", blocks=6), policy)

    def _not_comparable(self) -> Reportable:
        return self._compared([self.run("sync"), self.run("async", sequences=32, call="another")], Policy())

    def _wrong(self) -> Reportable:
        return self._compared(self.runs("sync", "unfenced"), Policy())

    def _captures(self) -> Reportable:
        ours, theirs = self.analysis("stop_flag_sync"), self.analysis("stop_flag_overlap")
        policy = Policy(allowed=frozenset({"steps"}))
        first, second = (side_of_capture(entry, len(entry.facts.steps), 0) for entry in (ours, theirs))
        return ComparisonResult(compare(first, second, policy), ours, theirs)

    def _baseline_file(self) -> Reportable:
        made = self._comparison()
        assert isinstance(made, ComparisonResult)
        return replace(made, baseline=None)

    def capture_file(self, name: str) -> Path:
        """Return an unpacked export of tests/data."""
        folder = Path(tempfile.mkdtemp(prefix="fdprof-case-"))
        path = folder / f"{name}.sqlite"
        with gzip.open(_DATA / "both-ways" / f"{name}.nsys.sqlite.gz") as packed, path.open("wb") as file:
            shutil.copyfileobj(packed, file)
        return path

    def analysis(self, name: str) -> CaptureResult:
        """Return the analysis of a capture by nsys on an H200, called as its loop."""
        path = self.capture_file(name)
        try:
            return analyze(import_capture(path, lambda text: None), f"{name}.sqlite", Choice())
        finally:
            shutil.rmtree(path.parent)

    def _inflated(self) -> Reportable:
        entry = self.analysis("stop_flag_async")
        inflation = Inflation(1.12, (1.08, 1.16), "6 runs under nsys against 6 bare ones")
        return analyze(replace(entry.facts.capture, inflation=inflation), entry.path, Choice())

    def _no_device(self) -> Reportable:
        calls = [("cudaLaunchKernel", 1, 3), ("cudaMemcpyAsync", 4, 6), ("cudaStreamSynchronize", 7, 90)]
        return analyze(self._build.a_loop(4, 100, calls), "no_device.json", Choice())

    def _hostile(self) -> Reportable:
        """Every name that a capture has is one of HOSTILE: ranges, kernels, the file, the device."""
        calls = [("cudaLaunchKernel", 1, 3), ("cudaMemcpy", 20, 70), ("cudaLaunchKernel", 72, 74)]
        work = [
            *((f"kernel {HOSTILE[at]}", 4 + at, 5 + at, 0, 7 + at) for at in range(len(HOSTILE) - 1)),
            ("D2H pageable 4", 60, 61, 1, 7),
            (f"kernel {HOSTILE[-1]}", 75, 90, 2, 7),
        ]
        ranges = [(HOSTILE[at], 2 + 10 * at, 10 + 10 * at) for at in range(len(HOSTILE))]
        capture = self._build.a_loop(12, 100, calls, work, ranges)
        named = replace(capture.devices[0], name=HOSTILE[0])
        return analyze(replace(capture, devices=(named,), tool=HOSTILE[7]), f"{HOSTILE[1]}.json", Choice())

    def _overhead(self) -> Reportable:
        def condition(
            name: str, tool: str, unit: str, mean_us: float, interval: tuple[float, float] | None
        ) -> Condition:
            value = mean_us / 200
            cost = Cost(mean_us * 1e3, Estimate(value, interval), value - 0.001, (mean_us - 200) * 1e3, 1.004, 6)
            return Condition(name, tool, unit, cost)

        return OverheadResult(
            scenario="stop_flag",
            mode="overlap",
            backend="paddle",
            parameters={
                "sequences": 64, "device_us": 200.0, "kernels": 20, "launch": "kernels", "schedule_us": 0.0,
                "save_output_us": 0.0, "steps": 500, "blocks": 5,
            },
            environment=replace(self._build.ENVIRONMENT, gpu="NVIDIA H200"),
            rounds=6,
            process_sd=0.012,
            conditions=(
                condition("bare", "none", ROUNDS, 200.0, None),
                condition("nvtx", "fdprof 0, collector", ROUNDS, 200.2, (0.998, 1.004)),
                condition("nsys-graph", "Nsight Systems 2025.3.1.0", ROUNDS, 214.0, (1.02, 1.12)),
                condition("fdprof-in-process", "fdprof 0, collector", BLOCKS, 207.0, (1.03, 1.04)),
                Condition("torch", "torch.profiler", ROUNDS, None, "torch is not installed"),
            ),
        )  # fmt: skip
