# ruff: noqa: SIM300 - the expected value stands first
"""fdprof.scenario_check: what is refused of a scenario, in which words; and who is blamed for what a file raises."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from fdprof import plugins
from fdprof.backends.protocol import tensor_spec
from fdprof.errors import ScenarioFailed, UsageError
from fdprof.model import Direction, Group, Memory, Producer, TensorSpec
from fdprof.scenario_check import MAX_PAYLOADS, MAX_SENT, blamed_on, check_scenario, load_scenario
from fdprof.tokens import INSERT_TASK, StreamSpec

ROWS = 4
STREAM = StreamSpec(seed=0, sequences=ROWS, mean_length=5, last_step=9)
INSERTING = replace(STREAM, insert_every=2)
TOKENS, FLAG = tensor_spec("sampled_token_ids", ROWS), tensor_spec("not_need_stop", ROWS)
OUTPUTS = Group("outputs", (TOKENS, FLAG))
TASK = TensorSpec(INSERT_TASK, (4,), "int64")


def _sent(*tensors):
    return Group("prefill", tensors, Direction.TO_DEVICE)


def _payloads(count):
    return tuple(TensorSpec(f"payload_{number}", (2,), "int64") for number in range(count))


@pytest.mark.parametrize("name", plugins.names("scenarios"))
def test_the_scenarios_that_come_with_fdprof_pass(name):
    """With the parameters they have by default."""
    scenario = load_scenario(name)
    params = scenario.params_type()
    check_scenario(scenario.groups(params), scenario.stream(params, 9), scenario.has_prepare)


def test_what_lies_on_the_bounds_passes():
    """As many payloads and sent tensors as can be had, payloads of either kernel, in both memories of ops."""
    groups = [
        OUTPUTS,
        Group("most", _payloads(MAX_PAYLOADS - 2)),
        Group("early", (TensorSpec("a", (1,), "bool"),), made_by=Producer.PREPARE, op_memory=Memory.PINNED),
        Group("late", (TensorSpec("b", (1,), "float32"),), op_memory=Memory.PAGEABLE),
        _sent(TASK, *(TensorSpec(f"sent_{number}", (4,), "bool") for number in range(MAX_SENT - 1))),
    ]
    check_scenario(groups, INSERTING, has_prepare=True)


REFUSED = {
    "no group": ([], STREAM, "groups() does not return Groups"),
    "two groups of one name": (
        [OUTPUTS, Group("outputs", _payloads(1))],
        STREAM,
        "group outputs is declared twice",
    ),
    "two tensors of one name": (
        [OUTPUTS, Group("again", (FLAG,))],
        STREAM,
        "tensor not_need_stop is declared twice",
    ),
    "drafts and pauses": (
        [OUTPUTS],
        replace(STREAM, draft_tokens=2, kv_block_tokens=8),
        "it drafts tokens and pauses for KV-cache blocks",
    ),
    "an empty group": ([OUTPUTS, Group("none", ())], STREAM, "group none has no tensors"),
    "mapped memory of an op": (
        [replace(OUTPUTS, op_memory=Memory.MAPPED)],
        STREAM,
        "group outputs has op_memory Memory.MAPPED",
    ),
    "a dtype that kernels do not have": (
        [Group("outputs", (TensorSpec("scores", (4, 2), "float64"),))],
        STREAM,
        "tensor scores is 'float64'",
    ),
    "an extent of 0": (
        [Group("outputs", (TensorSpec("scores", (4, 0), "float32"),))],
        STREAM,
        "tensor scores has shape (4, 0)",
    ),
    "an extent below 0": (
        [Group("outputs", (TensorSpec("scores", (4, -1), "float32"),))],
        STREAM,
        "tensor scores has shape (4, -1)",
    ),
    "two extents below 0": (
        [Group("outputs", (TensorSpec("scores", (-4, -1), "float32"),))],
        STREAM,
        "tensor scores has shape (-4, -1)",
    ),
    "half a word to the device": (
        [OUTPUTS, _sent(TASK, TensorSpec("mask", (6,), "bool"))],
        INSERTING,
        "tensor mask has 6 B",
    ),
    "tokens of another batch": (
        [Group("outputs", (tensor_spec("sampled_token_ids", 8),))],
        STREAM,
        "tensor sampled_token_ids is int64 [8, 1], expected int64 [4, 1]",
    ),
    "tokens of another dtype": (
        [Group("outputs", (replace(TOKENS, dtype="int32"),))],
        STREAM,
        "tensor sampled_token_ids is int32 [4, 1], expected int64 [4, 1]",
    ),
    "accepted tokens of another draft": (
        [Group("outputs", (tensor_spec("accept_tokens", ROWS, 3),))],
        replace(STREAM, draft_tokens=2),
        "tensor accept_tokens is int64 [4, 4], expected int64 [4, 3]",
    ),
    "tokens before the forward pass": (
        [replace(OUTPUTS, made_by=Producer.PREPARE)],
        STREAM,
        "tensor sampled_token_ids is in group outputs, made by prepare",
    ),
    "counts after the forward pass": (
        [OUTPUTS, Group("counts", (tensor_spec("is_block_step", ROWS),))],
        STREAM,
        "tensor is_block_step is in group counts, made by update",
    ),
    "nothing to the host": (
        [_sent(TASK)],
        INSERTING,
        "nothing goes to the host",
    ),
    "too many payloads": (
        [OUTPUTS, Group("most", _payloads(MAX_PAYLOADS + 1))],
        STREAM,
        "17 tensors like payload_0, at most 16 can be had",
    ),
    "too many tensors to the device": (
        [OUTPUTS, _sent(TASK, *_payloads(MAX_SENT))],
        INSERTING,
        "41 tensors like insert_task, at most 40 can be had",
    ),
    "something sent and nothing inserted": (
        [OUTPUTS, _sent(TASK)],
        STREAM,
        "insert_every is 0 and 1 tensors go to the device",
    ),
    "something inserted and nothing sent": (
        [OUTPUTS],
        INSERTING,
        "insert_every is 2 and 0 tensors go to the device",
    ),
    "something sent that says not for whom": (
        [OUTPUTS, _sent(*_payloads(2))],
        INSERTING,
        "insert_every is 2 and 2 tensors go to the device",
    ),
    "an insert_task of another shape": (
        [OUTPUTS, _sent(replace(TASK, shape=(2, 2)))],
        INSERTING,
        "insert_every is 2 and 1 tensors go to the device",
    ),
}


@pytest.mark.parametrize(("groups", "stream", "what"), REFUSED.values(), ids=REFUSED)
def test_what_no_backend_could_carry_out_is_refused(groups, stream, what):
    """In these words, and with what to do instead."""
    with pytest.raises(UsageError) as got:
        check_scenario(groups, stream, has_prepare=True)
    assert f"the scenario cannot run: {what}" == str(got.value)
    assert got.value.hint


@pytest.mark.parametrize(
    "group",
    [_sent(TASK), Group("counts", (tensor_spec("is_block_step", ROWS),), made_by=Producer.PREPARE)],
    ids=["to the device", "made by prepare"],
)
def test_groups_of_the_pre_processing_need_a_scenario_that_has_it(group):
    """With has_prepare they pass."""
    stream = INSERTING if group.direction is Direction.TO_DEVICE else STREAM
    with pytest.raises(UsageError) as got:
        check_scenario([OUTPUTS, group], stream, has_prepare=False)
    assert (
        f"the scenario cannot run: group {group.name} belongs to the pre-processing, which the scenario does not have"
        == str(got.value)
    )
    assert "has_prepare = True" in got.value.hint
    check_scenario([OUTPUTS, group], stream, has_prepare=True)


# A user's own file.

MINE = """
from fdprof.scenarios.protocol import Scenario

class Mine(Scenario):
    source = "mine"

SCENARIO = {value}
"""


@pytest.fixture
def write_scenario(tmp_path):
    """Write a file and return its path, as it is given on the command line."""

    def write(text):
        path = tmp_path / "mine.py"
        path.write_text(text)
        return str(path)

    return write


def test_a_scenario_is_loaded_by_its_name_or_by_the_path_of_its_file(write_scenario):
    """Both are objects of a class derived from Scenario."""
    assert "StopFlag" == type(load_scenario("stop_flag")).__name__
    assert "mine" == load_scenario(write_scenario(MINE.format(value="Mine()"))).source


@pytest.mark.parametrize(("value", "what"), [("Mine", "type"), ("object()", "object"), ("None", "NoneType")])
def test_what_is_no_object_of_a_scenario_is_refused(write_scenario, value, what):
    """Also the class itself, which is easily written by mistake."""
    path = write_scenario(MINE.format(value=value))
    with pytest.raises(UsageError) as got:
        load_scenario(path)
    expected = f"{path}: SCENARIO is a {what}, expected an object of a class derived from Scenario"
    assert expected == str(got.value)
    assert "SCENARIO = MyLoop()" in got.value.hint


@pytest.mark.parametrize("params", ["dict", "object()", "LoopParams()"])
def test_parameters_that_are_no_class_of_loop_params_are_refused(write_scenario, params):
    """Another class, an object, or parameters where their class is expected."""
    text = f"from fdprof.params import LoopParams\n{MINE.format(value='Mine()')}\nMine.params_type = {params}\n"
    path = write_scenario(text)
    with pytest.raises(UsageError) as got:
        load_scenario(path)
    assert f"{path}: params_type is not a LoopParams" == str(got.value)


FAULTY = """
def outer():
    return inner()

def inner():
    {statement}
"""


def _run(path):
    """Run a file's outer()."""
    scope = {}
    exec(compile(Path(path).read_text(), path, "exec"), scope)
    scope["outer"]()


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("return {}['tokens']", "KeyError: 'tokens'"),
        ("return 1 // 0", "ZeroDivisionError: "),
        ("return missing", "NameError: name 'missing' is not defined"),
        ("return None.tokens", "AttributeError: 'NoneType' object has no attribute 'tokens'"),
        ("raise ValueError('no')", "ValueError: no"),
        ("assert False, 'not so'", "AssertionError: not so"),
        ("raise NotImplementedError", "NotImplementedError: "),
        ("return len(5)", "TypeError: object of type 'int' has no len()"),
    ],
)
def test_what_a_users_file_raises_is_blamed_on_its_innermost_line(write_scenario, statement, error):
    """Line 6, not the call of it in line 3; the cause is kept for those who want it."""
    path = write_scenario(FAULTY.format(statement=statement))
    with pytest.raises(ScenarioFailed) as got, blamed_on(path, "in a step"):
        _run(path)
    assert re.fullmatch(rf"{re.escape(f'{path}, line 6, in a step: {error}')}.*", str(got.value))
    assert "correct the file" == got.value.hint
    assert error.startswith(type(got.value.__cause__).__name__)


def test_an_error_below_the_users_line_is_blamed_on_that_line(write_scenario):
    """The file calls into fdprof with what does not fit: its own line is named, not fdprof's."""
    path = write_scenario(
        FAULTY.format(statement="from fdprof.backends.protocol import tensor_spec; tensor_spec('x', 2)")
    )
    with pytest.raises(ScenarioFailed) as got, blamed_on(path, "its declarations"):
        _run(path)
    assert f"{path}, line 6, its declarations: KeyError: 'x'" == str(got.value)


def test_fdprofs_own_errors_pass_as_they_are(write_scenario):
    """A wait that did not end is not the file's fault; nor is what works."""
    path = write_scenario("")
    failure = UsageError("as it was")
    with pytest.raises(UsageError) as got, blamed_on(path, "in a step"):
        raise failure
    assert got.value is failure
    with blamed_on(path, "in a step"):
        pass


def test_errors_of_fdprofs_own_scenarios_are_bugs_and_no_usage():
    """The name is no path: the error itself comes out."""
    with pytest.raises(KeyError), blamed_on("stop_flag", "in a step"):
        raise KeyError("tokens")
