"""The native ops, loaded at first use: `ops.get_stop(tensor)`, `ops.Event()` and the rest of NATIVE.

The functions and classes of NATIVE are the compiled ones themselves, without a Python frame around them, because a
frame would cost more than get_stop does; their docstrings, dtypes and errors are in `help(ops.load())`.  They raise
ScenarioFailed for what goes wrong at run time (a CUDA error, a passed timeout, an unfit tensor) and ValueError for an
argument out of range.  Loading raises EnvironmentMissing if the ops cannot be built.

Everything works on one device, Paddle's current one.  With a CPU-only Paddle every name exists: kernels run in the
calling thread with the same results, events are complete when recorded, and pinned memory is pageable.
"""

from collections.abc import Sequence
from types import ModuleType, TracebackType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from fdprof.ops.build import build, current_target, import_library

from fdprof.tokens import IDLE_TOKEN, output_lengths

NATIVE = frozenset(
    {
        "DecodeLoop",
        "Event",
        "Latch",
        "Publication",
        "Stream",
        "align_clocks",
        "built_for_cuda",
        "copy_async",
        "current_stream",
        "device_info",
        "device_pointer",
        "free_pinned",
        "get_stop",
        "memory_kind",
        "pinned_count",
        "pinned_tensor",
        "poison",
        "set_stop",
        "set_watch_grace",
        "stream_wait",
        "synchronize_current",
        "watch_begin",
        "watch_end",
        "watch_fired",
        "write_host",
    }
)

_loaded: ModuleType | None = None


def load(*, verbose: bool = False) -> ModuleType:
    """Return the native module, built first if the cache has none (about a minute; later about 2 ms).

    Raises EnvironmentMissing, with the cause and what to do, if Paddle or a compiler is missing or the build fails.
    """
    global _loaded
    if _loaded is None:
        _loaded = import_library(build(current_target(), verbose=verbose))
    return _loaded


def __getattr__(name: str) -> Any:
    """Load the native module for one of its names, and keep the name here so that this runs once for it."""
    if name not in NATIVE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(load(), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *NATIVE})


def paddle_pinned_tensor(shape: Sequence[int], dtype: str) -> Any:
    """Return a zeroed tensor on Paddle's own CUDAPinnedPlace; an ordinary CPU tensor without CUDA.

    Indexing it in Python moves it to the device for good (Paddle #78835).  It is made from numpy, because
    paddle.zeros ignores this place (Paddle #77537).
    """
    import paddle

    place = paddle.CUDAPinnedPlace() if load().built_for_cuda else paddle.CPUPlace()
    return paddle.to_tensor(np.zeros(tuple(shape), dtype=dtype), place=place)


def initial_state(sequences: int, seed: int, mean_length: int) -> dict[str, npt.NDArray[Any]]:
    """Return the start values of what every DecodeLoop needs, time apart: row b starts with request b."""
    requests = np.arange(sequences, dtype=np.int64)
    return {
        "sequence_number": np.zeros(1, dtype=np.int64),
        "request": requests,
        "position": np.zeros(sequences, dtype=np.int32),
        "length": output_lengths(seed, requests, mean_length).astype(np.int32),
        "prompt_hash": np.zeros(sequences, dtype=np.int64),
        "blocked": np.zeros(sequences, dtype=np.bool_),
        "sampled_token_ids": np.full((sequences, 1), IDLE_TOKEN, dtype=np.int64),
        "not_need_stop": np.ones(1, dtype=np.bool_),
    }


class guard:  # noqa: N801  used like a function: `with guard(30.0): tensor.cpu()`
    """Bounds blocking calls that are not ours: raises ScenarioFailed at its end if they took longer than timeout_s.

    At the deadline the waiting kernels of fdprof are ended, so that the blocked call returns; if it has not 10 s
    later, the process ends with exit code 4.
    """

    __slots__ = ("_timeout_s",)

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s

    def __enter__(self) -> None:
        load().watch_begin(self._timeout_s)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        load().watch_end(quiet=kind is not None)
        return False
