"""Traces a Python command with torch.profiler (Kineto)."""

from fdprof.tracers._python_tracer import PythonTracer

TRACER = PythonTracer(
    tool="torch.profiler",
    framework="torch",
    install="pip install torch",
    prelude="import torch; torch.cuda.is_available() and torch.cuda.init()",
)
