"""A program behaves under a profiler as it does without; what becomes of the trace.

A stand-in for the framework keeps this fast: what is tested is our file in the program's Python, which knows nothing of
fdprof.  test_torch_tracer.py and test_paddle_tracer.py run the real ones.
"""

# ruff: noqa: SIM300
import json
import os
import subprocess
import sys

import pytest

from fdprof.errors import EnvironmentMissing, UsageError
from fdprof.supervision import Ended
from fdprof.tracers.paddle import TRACER as PADDLE
from fdprof.tracers.protocol import CUDA_PROFILER_API, Request
from fdprof.tracers.torch import TRACER as TORCH

PADDLE_INIT = """
__version__ = "0.stand-in"
def is_compiled_with_cuda(): return False
from . import profiler
"""
PADDLE_PROFILER = """
import enum, json, os
ProfilerTarget = enum.Enum("ProfilerTarget", "CPU GPU")
class Profiler:
    def __init__(self, targets, on_trace_ready):
        if os.environ.get("STAND_IN") == "refuses": raise RuntimeError("another profiler is at work")
        self.ready = on_trace_ready
    def start(self): self.targets = ["started"]
    def stop(self): self.ready(self)
    def export(self, path, format):
        if os.environ.get("STAND_IN") == "dies": os._exit(9)
        with open(path, "w") as file: json.dump(self.targets + RecordEvent.seen, file)
class RecordEvent:
    seen = []
    def __init__(self, name): self.name = name
    def __enter__(self): self.seen.append("begin " + self.name)
    def __exit__(self, *error): self.seen.append("end " + self.name)
"""
TORCH_INIT = """
import os, types
__version__ = "0.stand-in"
version = types.SimpleNamespace(cuda="13.0", hip=None)
waiting = []
cuda = types.SimpleNamespace(_lazy_call=waiting.append)
def use_cuda():
    while waiting: waiting.pop()()
"""
TORCH_PROFILER = """
import enum, json
ProfilerActivity = enum.Enum("ProfilerActivity", "CPU CUDA")
def supported_activities(): return set(ProfilerActivity)
class profile:
    def __init__(self, activities): self.seen = [each.name for each in activities]
    def start(self): pass
    def stop(self): pass
    def export_chrome_trace(self, path):
        with open(path, "w") as file: json.dump(self.seen, file)
record_function = None
"""


@pytest.fixture(autouse=True)
def stand_ins(tmp_path, monkeypatch):
    """Both frameworks on PYTHONPATH, and an empty current folder."""
    folder = tmp_path / "stand ins"
    for name, init, profiler in (
        ("paddle", PADDLE_INIT, PADDLE_PROFILER),
        ("torch", TORCH_INIT, TORCH_PROFILER),
    ):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(init)
        (folder / name / "profiler.py").write_text(profiler)
    (folder / "torch" / "autograd").mkdir()
    (folder / "torch" / "autograd" / "__init__.py").write_text("")
    (folder / "torch" / "autograd" / "profiler.py").write_text("")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


@pytest.fixture
def request_of(tmp_path):
    """A request for a command, with a new folder each time."""

    def make(*command, **more):
        folder = tmp_path / f"taken {len(list(tmp_path.glob('taken *')))}"
        folder.mkdir()
        return Request(**({"command": command, "folder": folder, "limit_s": 100.0} | more))

    return make


@pytest.fixture
def take(request_of, capfd):
    """Take a command; return what was taken and what it printed."""

    def run(*command, tracer=PADDLE, **more):
        request = request_of(*command, **more)
        assert tracer.missing(request) is None
        capfd.readouterr()
        taken = tracer.take(request)
        assert [each.name for each in taken.captures] == [each.name for each in request.folder.iterdir()]
        return taken, capfd.readouterr()

    return run


def _bare(command):
    """Return a command's end without a profiler; its variables are Python's, not those that readline added to C's."""
    return subprocess.run(
        command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, env=dict(os.environ)
    )


PROGRAMS = {
    "it ends": "print('done')",
    "it says how it was called": """
import __main__, os
print(sys.argv, sys.path[0], sys.path, sys.flags, __name__, __file__, __main__.__file__, __main__.__spec__)
print(sorted(os.environ.items()))
print([type(finder) for finder in sys.meta_path if type(finder).__module__ != 'sitecustomize'])  # it waits for markers
print([path for path in sys.path_importer_cache if 'inside' in path])
""",
    "exit code 3": "sys.exit(3)",
    "exit with words": "sys.exit('no such model')",
    "an exception": "def f(): raise ValueError('boom')\nf()",
    "an import that fails": "import paddle.not_there",
    "a hook of its own": "sys.excepthook = lambda *e: print('mine', e[0])\nraise KeyError(1)",
    "exit handlers": "import atexit; atexit.register(print, 'last')",
    "Ctrl-C": "import signal, os; os.kill(os.getpid(), signal.SIGINT)\nwhile True: pass",
    "Ctrl-C taken": """
import signal, os
try:
    os.kill(os.getpid(), signal.SIGINT)
    while True: pass
except KeyboardInterrupt: print('taken'); sys.exit(4)
""",
    "SIGTERM": "import signal, os; os.kill(os.getpid(), signal.SIGTERM)\nwhile True: pass",
    "SIGTERM taken": """
import signal, os
signal.signal(signal.SIGTERM, lambda *a: sys.exit(7)); os.kill(os.getpid(), signal.SIGTERM)
while True: pass
""",
    "it reads": "print(sys.stdin.read())",
    "a thread that outlives it": """
import threading
threading.Thread(target=lambda: (threading.main_thread().join(), print('thread'))).start()
""",
    "workers": """
import multiprocessing, signal
def worker(queue): queue.put((__name__, hasattr(sys.modules.get('sitecustomize'), 'Recording')))
if __name__ == '__main__':
    for way in ('spawn', 'forkserver'):
        context = multiprocessing.get_context(way)
        queue = context.SimpleQueue()
        process = context.Process(target=worker, args=(queue,)); process.start()
        print(way, queue.get()); process.join(); print(process.exitcode)
""",
    "a forked worker that is terminated": """
import multiprocessing, signal
context = multiprocessing.get_context('fork')
def inner(): signal.pause()
def worker(queue):
    process = context.Process(target=inner); process.start(); process.terminate(); process.join()
    queue.put((process.exitcode, str(signal.getsignal(signal.SIGTERM))))
    signal.pause()
queue = context.SimpleQueue()
process = context.Process(target=worker, args=(queue,)); process.start()
print(queue.get()); process.terminate(); process.join(); print(process.exitcode)
""",
    "a child that ends in order": """
import os
pid = os.fork()
if pid == 0: sys.exit(6)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
""",
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_a_program_does_under_the_profiler_what_it_does_without(take, tmp_path, program):
    """Its output, its trace-back and its end are the same; and the trace is written, of that process alone."""
    script = tmp_path / "a script.py"
    script.write_text(f"import sys, paddle\n{program}\n")
    command = (sys.executable, str(script), "-x", "a b", "")
    bare = _bare(command)
    taken, printed = take(*command)
    assert (bare.stdout, bare.stderr) == (printed.out, printed.err)
    assert bare.returncode == {130: -2, 143: -15}.get(taken.outcome.exit_code, taken.outcome.exit_code)
    assert "paddle.profiler 0.stand-in" == taken.tool
    assert ["started"] == json.loads(taken.captures[0].read_text())


@pytest.mark.parametrize("is_module", [True, False])
def test_a_module_and_code_run_as_they_do_without(take, tmp_path, is_module):
    """-m sets __spec__ and the path of the module, -c neither."""
    package = tmp_path / "work" / "package"
    package.mkdir()
    shown = "import sys, paddle; print(sys.argv, sys.path[0], __spec__ and __spec__.name, __name__)"
    (package / "__main__.py").write_text(shown)
    words = ("-m", "package") if is_module else ("-c", shown)
    command = (sys.executable, *words, "x")
    bare = _bare(command)
    taken, printed = take(*command)
    assert (bare.stdout, bare.stderr, 1) == (printed.out, printed.err, len(taken.captures))


def test_a_script_with_a_first_line_is_profiled(take, tmp_path):
    """As pip installs vllm and the like."""
    script = tmp_path / "tool"
    script.write_text(f"#!{sys.executable}\nimport paddle, sys; print(sys.argv[1:])\n")
    script.chmod(0o755)
    taken, printed = take(str(script), "serve")
    assert ("['serve']\n", 1) == (printed.out, len(taken.captures))


def test_another_sitecustomize_still_runs(take, stand_ins):
    """Distributions and people have one; ours comes first and hands on."""
    (stand_ins / "sitecustomize.py").write_text("import builtins; builtins.theirs = __file__")
    _, printed = take(sys.executable, "-c", "import paddle; print(theirs)")
    assert f"{stand_ins / 'sitecustomize.py'}\n" == printed.out


def test_quiet_keeps_standard_output_free(take):
    """It is fdprof's own then."""
    _, printed = take(sys.executable, "-c", "import paddle; print('hello')", quiet=True)
    assert ("", "hello\n") == (printed.out, printed.err)


def test_variables_of_the_request_reach_the_command(take, stand_ins, tmp_path):
    """PYTHONPATH among them: the command finds what it names, and sees it as it was given."""
    (tmp_path / "more").mkdir()
    path = os.pathsep.join([str(tmp_path / "more"), str(stand_ins)])
    code = "import paddle, os; print(os.environ['PYTHONPATH'], os.environ['WORD'])"
    _, printed = take(sys.executable, "-c", code, environment=(("PYTHONPATH", path), ("WORD", "said")))
    assert f"{path} said\n" == printed.out


def test_a_program_past_its_limit_is_ended_and_its_trace_kept(take):
    """It is told to end as by Ctrl-C, at which Python still writes the trace."""
    taken, _ = take(sys.executable, "-c", "import paddle, signal\nwhile True: signal.pause()", limit_s=2.0)
    assert (Ended.LIMIT, 124, 1) == (taken.outcome.ended, taken.outcome.exit_code, len(taken.captures))


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import paddle, os; os._exit(5)", "os._exit"),
        ("import paddle, os, sys; os.execv(sys.executable, [sys.executable, '-c', 'exit(5)'])", "another program"),
        ("import os; os._exit(5)", "os._exit"),
        ("raise SystemExit(5)", "did not import paddle"),
        ("import os; os.environ['STAND_IN'] = 'dies'; import paddle; raise SystemExit(9)", "while its trace"),
    ],
)
def test_a_lost_trace_is_explained(take, code, reason):
    """No file, the command's own exit code, and a sentence that says why."""
    taken, _ = take(sys.executable, "-c", code)
    assert () == taken.captures
    assert taken.outcome.exit_code in (5, 9)
    assert reason in " ".join(taken.notes)


def test_a_python_that_starts_without_our_file_is_explained(take, tmp_path):
    """A start-up script that clears PYTHONPATH, as some do."""
    python = tmp_path / "python3"
    python.write_text(f'#!/bin/sh\n[ "$2" = "import json" ] && unset PYTHONPATH\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    taken, _ = take(str(python), "-c", "import json")
    assert ((), 0) == (taken.captures, taken.outcome.exit_code)
    assert "PYTHONPATH" in taken.notes[0]


def test_a_profiler_that_does_not_start_is_an_error_and_the_program_runs_on(request_of, capfd, monkeypatch):
    """What it raised is told, and the command was not disturbed."""
    monkeypatch.setenv("STAND_IN", "refuses")
    request = request_of(sys.executable, "-c", "import paddle; print('went on')")
    with pytest.raises(EnvironmentMissing, match=r"RuntimeError: another profiler is at work"):
        PADDLE.take(request)
    assert "went on\n" == capfd.readouterr().out
    assert [] == list(request.folder.iterdir())


def test_another_module_of_the_frameworks_name_leaves_the_program_alone(request_of, stand_ins, capfd):
    """It has no profiler: that is told afterwards."""
    (stand_ins / "paddle" / "__init__.py").write_text("")
    (stand_ins / "paddle" / "profiler.py").unlink()
    with pytest.raises(EnvironmentMissing, match=r"paddle.profiler of unknown version did not record: Mod"):
        PADDLE.take(request_of(sys.executable, "-c", "import paddle; print('went on')"))
    assert ("went on\n", "") == capfd.readouterr()


@pytest.mark.parametrize("order", ["paddle, fdprof.markers", "fdprof.markers, paddle"])
def test_markers_become_ranges_of_the_profiler_until_it_ends(take, order):
    """These profilers see no NVTX.  Nested, and of two threads."""
    code = f"""
import threading, {order}
def loop(first):
    for k in (first, first + 1):
        with fdprof.markers.step(k):
            with fdprof.markers.transfer("ids"): pass
loop(0)
thread = threading.Thread(target=loop, args=(2,)); thread.start(); thread.join()
print(fdprof.markers.listens())
"""
    taken, printed = take(sys.executable, "-c", code)
    assert "True\n" == printed.out
    one = ["begin step", "begin transfer:ids", "end transfer:ids", "end step"]
    assert ["started", *one * 4] == json.loads(taken.captures[0].read_text())


def test_a_program_that_sends_its_markers_elsewhere_keeps_them(take):
    """One sink at a time; the program's own came first."""
    code = """
import fdprof.markers
class Mine:
    def push(self, name, payload): print(name, payload)
    def pop(self): pass
fdprof.markers.attach(Mine())
import paddle
with fdprof.markers.step(7): pass
"""
    taken, printed = take(sys.executable, "-c", code)
    assert ("step 7\n", "") == printed
    assert ["started"] == json.loads(taken.captures[0].read_text())


def test_torch_is_recorded_from_the_first_use_of_cuda(take):
    """Until then, setting CUDA up would freeze CUDA_VISIBLE_DEVICES and break forked workers."""
    taken, printed = take(
        sys.executable, "-c", "import torch; print(len(torch.waiting)); torch.use_cuda()", tracer=TORCH
    )
    assert "1\n" == printed.out
    assert ["CPU", "CUDA"] == json.loads(taken.captures[0].read_text())
    assert any("no synchronisation events" in note for note in taken.notes)  # of a torch without that option


def test_torch_without_any_use_of_cuda_gives_no_trace_and_says_so(take):
    """With a CUDA build, a trace without CUDA would be of no use."""
    taken, _ = take(sys.executable, "-c", "import torch", tracer=TORCH)
    assert () == taken.captures
    assert "The process that was started used no CUDA." == taken.notes[0]


def test_cuda_in_a_forked_worker_alone_gives_no_trace_and_says_so(take):
    """A serving engine's shape: the profiler is in the parent, the work is not."""
    code = "import torch, os\nif os.fork() == 0: torch.use_cuda()\nelse: os.wait()"
    taken, _ = take(sys.executable, "-c", code, tracer=TORCH)
    assert () == taken.captures
    assert "a child process did" in taken.notes[0]


@pytest.mark.parametrize("tracer", [TORCH, PADDLE])
@pytest.mark.parametrize("more", [{"capture_range": CUDA_PROFILER_API}, {"capture_range": "step@mine"}, {"repeat": 3}])
def test_a_part_of_a_command_is_refused_with_the_tracers_that_take_one(request_of, tracer, more):
    """These profilers are started once and ended with the process."""
    problem = tracer.missing(request_of(sys.executable, "x.py", **more))
    assert isinstance(problem, UsageError)
    assert "--with nsys or --with fdprof" in problem.hint


@pytest.mark.parametrize("graph_trace", ["graph", "node"])
def test_either_graph_trace_is_taken(request_of, graph_trace):
    """Both profilers record the kernels of a graph one by one, whichever is asked for."""
    assert TORCH.missing(request_of(sys.executable, "x.py", graph_trace=graph_trace)) is None


def test_a_command_without_python_is_refused(request_of):
    """The profiler lives inside Python."""
    problem = TORCH.missing(request_of("ls"))
    assert isinstance(problem, UsageError)
    assert "lives inside a Python process" in str(problem)


def test_a_python_without_the_framework_is_missing_something(request_of, monkeypatch, tmp_path):
    """It is asked before the command runs; a folder of that name is no framework."""
    monkeypatch.delenv("PYTHONPATH")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "empty")], check=True)
    (tmp_path / "work" / "torch").mkdir()
    problem = TORCH.missing(request_of(str(tmp_path / "empty" / "bin" / "python"), "x.py"))
    assert isinstance(problem, EnvironmentMissing)
    assert "has no torch" in str(problem)
    assert "pip install torch" in problem.hint


@pytest.mark.parametrize("body", ["exit 3", "echo broken >&2; exit 1", "kill -9 $$", "echo something else"])
def test_a_python_that_does_not_answer_is_missing_something(request_of, tmp_path, body):
    """Anything may be named python."""
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{body}\n")
    python.chmod(0o755)
    problem = TORCH.missing(request_of(str(python), "x.py"))
    assert isinstance(problem, EnvironmentMissing)
    assert "does not run Python code" in str(problem)
