"""Traces a Python command with paddle.profiler."""

from fdprof.tracers._python_tracer import PythonTracer

TRACER = PythonTracer(tool="paddle.profiler", framework="paddle", install="pip install paddlepaddle-gpu")
