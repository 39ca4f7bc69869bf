# ruff: noqa: SIM300 - the expected value stands first
"""Markers with nothing listening and with a sink; test_markers_nvtx.py has those under NVTX tools."""

import enum
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from fdprof import markers
from fdprof.analysis.sites import is_hidden
from fdprof.errors import UsageError

ROOT = Path(__file__).parents[2]


class Tape:
    """A sink that keeps what it is given, with the thread it came on."""

    def __init__(self):
        self.rows = []

    def push(self, name, payload):
        self.rows.append((threading.current_thread().name, name, payload))

    def pop(self):
        self.rows.append((threading.current_thread().name, "pop"))

    @property
    def said(self):
        return [row[1:] for row in self.rows]

    @property
    def names(self):
        return [row[1] for row in self.rows if row[1] != "pop"]


@pytest.fixture(autouse=True)
def nothing_listens():
    """Before and after each test."""
    assert not markers.listens(), "these tests cannot run under an NVTX tool"
    yield
    markers.detach()
    assert not markers.listens()


@pytest.fixture
def tape():
    found = Tape()
    markers.attach(found)
    return found


@pytest.fixture(params=["off", "on"])
def either(request):
    """A tape that is attached, and one that is not."""
    found = Tape()
    if request.param == "on":
        markers.attach(found)
    return found


def test_a_sink_gets_the_ranges_in_order_with_their_names_and_the_steps_index(tape):
    """One step as an engine writes it."""
    with markers.step(7):
        with markers.transfer("sampled_token_ids"):
            pass
        with markers.fence("sampled_token_ids"):
            pass
        with markers.fence():
            pass
    transfer, fence = ("transfer:sampled_token_ids", None), ("fence:sampled_token_ids", None)
    expected = [("step", 7), transfer, ("pop",), fence, ("pop",), ("fence", None), ("pop",), ("pop",)]
    assert expected == tape.said


def test_a_marker_is_silent_when_nothing_listens():
    """The sink was there before, and is not any more."""
    tape = Tape()
    markers.attach(tape)
    markers.detach()
    with markers.step(0), markers.transfer("a"), markers.fence():
        pass
    assert [] == tape.rows


def test_with_gives_none(either):
    """There is nothing to do with the range but to leave it."""
    with markers.step(0) as step, markers.transfer("a") as transfer, markers.fence() as fence:
        pass
    assert (None, None, None) == (step, transfer, fence)


def test_an_exception_passes_through_and_ends_the_ranges(either):
    """Its own object comes out, and both ranges are over."""
    error = KeyError("the engine's own")
    with pytest.raises(KeyError) as caught, markers.step(0), markers.transfer("a"):
        raise error
    assert error is caught.value
    assert either.said in ([], [("step", 0), ("transfer:a", None), ("pop",), ("pop",)])
    assert bool(either.rows) == markers.listens()


def test_a_range_may_be_entered_inside_itself_and_again(either):
    """The same object: an engine may keep it."""
    kept = markers.transfer("a")
    with kept, kept:
        pass
    with kept:
        pass
    if markers.listens():
        assert [("transfer:a", None)] * 2 + [("pop",)] * 2 + [("transfer:a", None), ("pop",)] == either.said


def test_threads_keep_their_own_ranges(tape):
    """Two threads inside one another's steps: each pushes and pops on its own."""
    inside, leave = threading.Event(), threading.Event()

    def other():
        with markers.step(1):
            inside.set()
            assert leave.wait(30)

    thread = threading.Thread(target=other, name="other")
    with markers.step(0):
        thread.start()
        assert inside.wait(30)
    leave.set()
    thread.join(30)
    here = threading.current_thread().name
    assert [(here, "step", 0), ("other", "step", 1), (here, "pop"), ("other", "pop")] == tape.rows


@pytest.mark.parametrize("next_sink", [None, Tape()], ids=["detached", "another sink"])
def test_a_range_ends_at_the_sink_where_it_began(next_sink):
    """Also on a thread that was inside when the sink went away."""
    first = Tape()
    markers.attach(first)
    inside, leave = threading.Event(), threading.Event()

    def other():
        with markers.step(1), markers.transfer("a"):
            inside.set()
            assert leave.wait(30)

    thread = threading.Thread(target=other, name="other")
    thread.start()
    assert inside.wait(30)
    markers.detach()
    if next_sink is not None:
        markers.attach(next_sink)
    leave.set()
    thread.join(30)
    assert [("step", 1), ("transfer:a", None), ("pop",), ("pop",)] == first.said
    assert next_sink is None or [] == next_sink.rows


def test_a_range_that_began_unheard_ends_unheard():
    """A sink that comes in the middle of a step gets no pop without its push."""
    tape = Tape()
    with markers.step(0):
        markers.attach(tape)
        with markers.fence():
            pass
    assert [("fence", None), ("pop",)] == tape.said


def test_a_second_sink_is_refused_and_the_first_goes_on(tape):
    """Two recordings at once would each have half of what they need."""
    with pytest.raises(UsageError, match="go to Tape already"):
        markers.attach(Tape())
    with markers.step(0):
        pass
    assert [("step", 0), ("pop",)] == tape.said


@pytest.fixture
def hurried_threads():
    """Threads that take turns every few bytecodes."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_sinks_that_come_and_go_while_threads_mark_each_get_whole_ranges(hurried_threads):
    """Four threads mark, 300 sinks come and go: no marker fails, and each thread's pops follow its pushes."""
    sinks, errors, over = [Tape() for _ in range(300)], [], threading.Event()

    def mark():
        k = 0
        try:
            while not over.is_set():
                with markers.step(k), markers.transfer("a"), markers.fence():
                    k += 1
        except (AttributeError, TypeError) as error:
            errors.append(error)

    threads = [threading.Thread(target=mark, name=f"t{number}") for number in range(4)]
    for thread in threads:
        thread.start()
    for sink in sinks:
        markers.attach(sink)
        while not sink.rows and not errors:
            pass
        markers.detach()
    over.set()
    for thread in threads:
        thread.join(30)
    assert [] == errors
    for sink in sinks:
        depths = dict.fromkeys((thread.name for thread in threads), 0)
        for thread, said, *_ in sink.rows:
            depths[thread] += -1 if said == "pop" else 1
            assert depths[thread] >= 0
        assert {0} == set(depths.values())


class Number(enum.IntEnum):
    SEVEN = 7


class Name(str, enum.Enum):
    TOKENS = "tokens"


class Tensor:
    """On a device: whatever is asked of it would have to wait."""

    def _waits(self, *_):
        raise AssertionError("a marker waited for a device")

    __index__ = __int__ = __float__ = __bool__ = __str__ = __repr__ = __eq__ = __hash__ = __format__ = _waits
    __len__ = __iter__ = __getitem__ = __lt__ = __le__ = __gt__ = __ge__ = _waits


@pytest.mark.parametrize(
    ("index", "payload"),
    [
        (0, 0),
        (-1, -1),
        (2**63 - 1, 2**63 - 1),
        (-(2**63), -(2**63)),
        (True, 1),
        (Number.SEVEN, 7),
        (np.int32(5), 5),
        (np.uint64(2**64 - 1), None),
        (2**63, None),
        (10**5000, None),
        (1.0, None),
        ("7", None),
        (None, None),
        (Tensor(), None),
        (np.array(3), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_steps_index_is_a_64_bit_integer_or_nothing(either, index, payload):
    """Nothing raises, with a sink or without, and the sink gets a plain int."""
    with markers.step(index):
        pass
    if markers.listens():
        assert [("step", payload), ("pop",)] == either.said
        assert type(either.said[0][1]) in (int, type(None))


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("tokens", "transfer:tokens"),
        ("生成的词", "transfer:生成的词"),
        (Name.TOKENS, "transfer:tokens"),
        ("", "transfer"),
        (None, "transfer"),
        ("a\nb\0c\x1b[31m", r"transfer:a\nb\x00c\x1b[31m"),
        ("\udc80", r"transfer:\udc80"),
        ("x" * 200, "transfer:" + "x" * 200),
        ("x" * 10_000_000, "transfer:" + "x" * 199 + "…"),
        (7, "transfer:<int>"),
        (b"tokens", "transfer:<bytes>"),
        (["a"], "transfer:<list>"),
        (Tensor(), "transfer:<Tensor>"),
        (Tensor, "transfer:<type>"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_name_is_printable_text_of_200_characters_at_most(either, name, shown):
    """Nothing raises, with a sink or without."""
    for _ in range(2):
        with markers.transfer(name):
            pass
    if markers.listens():
        assert [(shown, None), ("pop",)] * 2 == either.said


def test_after_1000_names_of_a_kind_others_share_one(tape):
    """A name with a number in it would fill the tool's memory."""
    for number in range(1200):
        with markers.transfer(f"tokens {number}"):
            pass
    with markers.transfer("tokens 3"), markers.fence("tokens"):
        pass
    assert [f"transfer:tokens {number}" for number in range(1000)] == tape.names[:1000]
    assert {"transfer:(other names)"} == set(tape.names[1000:1200])
    assert ["transfer:tokens 3", "fence:tokens"] == tape.names[1200:]


def test_a_wrong_number_of_arguments_is_an_error_with_a_sink_or_without(either):
    """As of any function."""
    for wrong in (markers.step, markers.transfer):
        with pytest.raises(TypeError, match="missing 1 required positional argument"):
            wrong()
    with pytest.raises(TypeError, match="positional argument"):
        markers.fence("a", "b")


def test_the_analysis_takes_the_waits_in_transfers_and_fences_for_meant(tape):
    """None of them is a hidden synchronisation."""
    with markers.transfer("tokens"), markers.fence("tokens"), markers.fence():
        pass
    assert [False, False, False] == [is_hidden(name) for name in tape.names]
    assert is_hidden("forward")


def _python(code, **environment):
    """Run code in a new process and return what it printed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NVTX_", "CUDA_INJ", "LD_PRE"))}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=kept | environment, timeout=120
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout.split("\n")[:-1]


LOADED = "print(*sorted({'numpy', 'nvtx', 'pandas', 'paddle', 'torch'} & sys.modules.keys()))"


def test_the_import_loads_neither_numpy_nor_nvtx_nor_a_framework():
    """An engine's start must not become slower."""
    assert [""] == _python(f"import sys; from fdprof import markers; markers.step(1); {LOADED}")


def test_markers_work_where_nothing_else_can_be_imported():
    """Without numpy, nvtx, pandas, Paddle and torch."""
    absent = "sys.modules.update(dict.fromkeys(('numpy', 'nvtx', 'pandas', 'paddle', 'torch')))"
    code = f"import sys; {absent}; from fdprof import markers\nwith markers.step(1), markers.fence(): print('done')"
    assert ["done"] == _python(code)


def test_the_package_has_the_markers_as_plain_attributes_after_their_first_use():
    """Looking one up in a loop must not import anything again."""
    code = "import fdprof; fdprof.step, fdprof.transfer, fdprof.fence; print(*sorted({'step', 'transfer', 'fence'} & "
    assert ["fence step transfer"] == _python(code + "vars(fdprof).keys()))")
