"""Loads a scenario and says what is wrong with it, before anything runs: it may be a user's own."""

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from pathlib import Path
from types import TracebackType
from typing import Any, get_type_hints

from fdprof import plugins
from fdprof.backends.protocol import MADE_IN_PREPARE, MADE_IN_UPDATE, tensor_spec
from fdprof.errors import FdprofError, ScenarioFailed, UsageError
from fdprof.model import Direction, Group, Memory, Producer, TensorSpec
from fdprof.params import Extent, LoopParams
from fdprof.scenarios.protocol import Scenario
from fdprof.tokens import INSERT_TASK, PAYLOAD_DTYPES, StreamSpec

MAX_PAYLOADS = 16
MAX_SENT = 40
"""Tensors that the decode kernels take as arguments (ops/csrc/decode_row.h)."""

_WORD_BYTES = 4

_COMMAND_OPTIONS = frozenset(
    {"scenario", "mode", "backend", "blocks", "fault", "audit", "disturb", "json", "output", "force", "runs", "save"}
    | {"baseline", "candidate", "help"}
    | {
        "what",
        "tracer",
        "limit",
        "graph_trace",
        "capture_range",
        "repeat",
        "diagnose",
        "step_range",
        "measure_inflation",
    }
    | {"with_", "rounds"}
)

_USER_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    OSError,
    RuntimeError,  # NotImplementedError among them
    TypeError,
    ValueError,
)


def load_scenario(name: str) -> Scenario:
    """Return a scenario by its name, or by the path of its file; UsageError when there is none."""
    if not name.isprintable():
        raise UsageError(f"{name!r} has characters that cannot be printed", "rename the file")
    with blamed_on(name, "while it is loaded"):
        found = plugins.load("scenarios", name)
    if not isinstance(found, Scenario):
        raise UsageError(
            f"{name}: SCENARIO is a {type(found).__name__}, expected an object of a class derived from Scenario",
            "class MyLoop(Scenario): ...; SCENARIO = MyLoop()",
        )
    if not isinstance(found.params_type, type) or not issubclass(found.params_type, LoopParams):
        raise UsageError(f"{name}: params_type is not a LoopParams", "derive it: class MyParams(LoopParams)")
    _check_params(name, found.params_type)
    return found


def _check_params(name: str, params_type: type[LoopParams]) -> None:
    """Refuse options that no command line could take, and looser bounds of options that all loops have."""
    shared = {field.name: field.metadata for field in dataclasses.fields(LoopParams)}
    taken = {field.name for field in dataclasses.fields(Extent)} | _COMMAND_OPTIONS
    types = get_type_hints(params_type)
    for field in dataclasses.fields(params_type):
        own = field.metadata
        if types[field.name] not in (int, float, str) or not isinstance(field.default, int | float | str):
            raise UsageError(
                f"{name}: parameter {field.name} is {types[field.name]}, with the default {field.default!r}",
                "use int, float or str, with a default of that type",
            )
        base: Mapping[str, Any] = shared.get(field.name, {})
        if field.name in taken:
            raise UsageError(f"{name}: --{field.name} is an option of the command", "give the parameter another name")
        if "help" not in own or not {"low", "choices", "parse"} & own.keys():
            raise UsageError(
                f"{name}: parameter {field.name} has no help and bounds",
                "make it with param(default, help, low, high) or choice(default, help, choices)",
            )
        if "low" in base and not ("low" in own and base["low"] <= own["low"] and own["high"] <= base["high"]):
            raise UsageError(
                f"{name}: parameter {field.name} has looser bounds than every loop's", "give it another name"
            )


class blamed_on:  # noqa: N801  used like a function
    """Turns what a user's file raises, or a sys.exit() in it, into ScenarioFailed with its line.

    What it prints goes to standard error, because standard output is the report's.  fdprof's own scenarios, its own
    errors and Ctrl-C are left alone.
    """

    def __init__(self, name: str, where: str) -> None:
        self._name, self._where = name, where
        self._redirected: AbstractContextManager[Any] = (
            redirect_stdout(sys.stderr) if plugins.is_path(name) else nullcontext()
        )

    def __enter__(self) -> None:
        self._redirected.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._redirected.__exit__(None, None, None)
        if error is None or isinstance(error, FdprofError) or not plugins.is_path(self._name):
            return
        line = plugins.line_in(error, Path(self._name))
        if line is None and not isinstance(error, NotImplementedError):
            return  # it did not come through the file
        if isinstance(error, Exception | SystemExit):
            place = self._name if line is None else f"{self._name}, line {line}"
            hint = "correct the file"
            if isinstance(error, TypeError) and "NoneType" in str(error):
                hint += "; a mode that reads a step later has no values in the first step: loop.read() gives None then"
            raise ScenarioFailed(f"{place}, {self._where}: {type(error).__name__}: {error}", hint) from error


def check_scenario(groups: Sequence[Group], stream: StreamSpec, has_prepare: bool) -> None:
    """Raise UsageError for the first declaration that no backend could carry out."""
    if not groups or not all(isinstance(group, Group) for group in groups):
        raise _refused("groups() does not return Groups", "return a tuple of Group(name, tensors)")
    for group in groups:
        _check_fields(group)
    _check_unique([group.name for group in groups], "group")
    _check_unique([tensor.name for group in groups for tensor in group.tensors], "tensor")
    if stream.draft_tokens and stream.kv_block_tokens:
        raise _refused("it drafts tokens and pauses for KV-cache blocks", "set one of the two in stream()")
    for group in groups:
        if not group.tensors:
            raise _refused(f"group {group.name} has no tensors", "give it some, or leave it out")
        if (group.direction is Direction.TO_DEVICE or group.made_by is Producer.PREPARE) and not has_prepare:
            raise _refused(
                f"group {group.name} belongs to the pre-processing, which the scenario does not have",
                "set has_prepare = True and call loop.prepare() in each step",
            )
        if group.op_memory not in (None, Memory.PAGEABLE, Memory.PINNED):
            raise _refused(f"group {group.name} has op_memory {group.op_memory}", "give pageable or pinned memory")
        for tensor in group.tensors:
            _check_tensor(tensor, group, stream)
    _check_counts(groups, stream)


def _check_fields(group: Group) -> None:
    """Refuse what would otherwise be found where it is used: a value in another field's place."""
    kinds = {"name": str, "direction": Direction, "made_by": Producer, "needed_in_step": bool}
    for field, kind in kinds.items():
        if not isinstance(getattr(group, field), kind):
            raise _refused(f"a group's {field} is {getattr(group, field)!r}", "name the fields: needed_in_step=True")
    if not isinstance(group.tensors, tuple) or not all(isinstance(tensor, TensorSpec) for tensor in group.tensors):
        raise _refused(f"the tensors of group {group.name} are no TensorSpecs", "use (TensorSpec(name, shape, dtype),)")
    for name in (group.name, *(tensor.name for tensor in group.tensors)):
        if not isinstance(name, str) or not name or not (name.isprintable() and name.isascii()):
            raise _refused(f"{name!r} is a name", "name groups and tensors in printable ASCII")
    for tensor in group.tensors:
        shape = tensor.shape
        if not isinstance(shape, tuple) or not shape or any(type(extent) is not int or extent < 1 for extent in shape):
            raise _refused(f"tensor {tensor.name} has shape {shape!r}", "give a tuple of ints of at least 1")
    names = {tensor.name for tensor in group.tensors}
    if not isinstance(group.per_step, tuple) or not set(group.per_step) <= names:
        raise _refused(f"group {group.name} has per_step {group.per_step!r}", "give a tuple of its tensors' names")


def _check_unique(names: Sequence[str], what: str) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise _refused(f"{what} {twice} is declared twice", "give each its own name")


def _check_tensor(tensor: TensorSpec, group: Group, stream: StreamSpec) -> None:
    if tensor.dtype not in PAYLOAD_DTYPES:
        raise _refused(f"tensor {tensor.name} is {tensor.dtype!r}", f"use one of {', '.join(PAYLOAD_DTYPES)}")
    if group.direction is Direction.TO_DEVICE:
        if tensor.size_bytes % _WORD_BYTES:
            raise _refused(f"tensor {tensor.name} has {tensor.size_bytes} B", "send whole words of 4 B")
        return
    for names, producer in ((MADE_IN_PREPARE, Producer.PREPARE), (MADE_IN_UPDATE, Producer.UPDATE)):
        if tensor.name not in names:
            continue
        expected = tensor_spec(tensor.name, stream.sequences, stream.draft_tokens)
        if tensor != expected:
            raise _refused(
                f"tensor {tensor.name} is {tensor.dtype} {list(tensor.shape)}, "
                f"expected {expected.dtype} {list(expected.shape)}",
                "make it with tensor_spec(name, params.sequences)",
            )
        if group.made_by is not producer:
            raise _refused(
                f"tensor {tensor.name} is in group {group.name}, made by {group.made_by.value}",
                f"give its group made_by=Producer.{producer.name}",
            )


def _check_counts(groups: Sequence[Group], stream: StreamSpec) -> None:
    known = MADE_IN_PREPARE | MADE_IN_UPDATE
    to_host = [t for group in groups if group.direction is Direction.TO_HOST for t in group.tensors]
    sent = [t for group in groups if group.direction is Direction.TO_DEVICE for t in group.tensors]
    if not to_host:
        raise _refused("nothing goes to the host", "declare a group that does: the loop must learn when to stop")
    payloads = [tensor for tensor in to_host if tensor.name not in known]
    for found, limit in ((payloads, MAX_PAYLOADS), (sent, MAX_SENT)):
        if len(found) > limit:
            raise _refused(f"{len(found)} tensors like {found[0].name}, at most {limit} can be had", "join some")
    has_task = any(tensor == TensorSpec(INSERT_TASK, (4,), "int64") for tensor in sent)
    if bool(sent) != bool(stream.insert_every) or bool(sent) != has_task:
        raise _refused(
            f"insert_every is {stream.insert_every} and {len(sent)} tensors go to the device",
            f"what goes to the device belongs to an inserted request: declare {INSERT_TASK} (int64 [4]) among them, "
            "and set insert_every in stream()",
        )


def _refused(what: str, hint: str) -> UsageError:
    return UsageError(f"the scenario cannot run: {what}", hint)
