"""fdprof.baseline: a side of a comparison that is saved is the side that is loaded, and a damaged file is refused."""

# ruff: noqa: SIM300 - the expected value stands first
import copy
import dataclasses
import json
import os
from dataclasses import replace

import numpy as np
import pytest

from fdprof import baseline
from fdprof.analysis.capture_result import analyze
from fdprof.analysis.results import result_of
from fdprof.analysis.sides import settled, side_of_capture, side_of_run
from fdprof.analysis.steps import Choice
from fdprof.errors import InputError
from fdprof.model import GpuState
from fdprof.units import printable

STATE = GpuState(1_980, 3_201, 41, 312_456, ("software power cap", "sync boost"))
UNREAD = GpuState(None, None, None, None, None)

KEYS = (
    "schema_version",
    "kind",
    "label",
    "source",
    "fields",
    "call",
    "positions",
    "windows_ns",
    "left_out",
    "parts_ns",
    "blocked",
    "means_ns",
    "limit_ns",
    "tokens",
    "is_right",
    "doubts",
    "gpu",
    "notes",
    "inflation",
)
"""What a baseline of schema version 1 holds, in the order of the file."""

# A good file, whose numbers are round: two blocks of 60 and 40 ns, and 25 ns.
GOOD = {
    "schema_version": 1,
    "kind": "baseline",
    "label": "sync",
    "source": "sim",
    "fields": {"tracer": "none", "sequences": 64, "device_us": 1000.5, "audit": False, "gpu": None},
    "call": "c0ffee",
    "positions": [0, 3],
    "windows_ns": [[60, 40], [25]],
    "left_out": 2,
    "parts_ns": {"busy:compute": 100, "blocked": 25},
    "blocked": {"copy_ns": 10, "fence_ns": 15},
    "means_ns": {"window_ns": 41.5, "device_busy_ns": None},
    "limit_ns": 20.0,
    "tokens": {
        "decided_by": {"scenario": "stop_flag", "seed": 0},
        "groups": ["outputs", "drafts"],
        "group": [0, 0, 1],
        "value_step": [0, 1, 1],
        "digest": [2**63 - 1, 5, 0],
        "last_step": 1,
    },
    "is_right": True,
    "doubts": ["steps-inferred"],
    "gpu": [
        [
            {
                "sm_clock_mhz": 1980,
                "memory_clock_mhz": 3201,
                "temperature_c": 41,
                "power_mw": 5,
                "throttle": ["sync boost"],
            },
            {"sm_clock_mhz": None, "memory_clock_mhz": 0, "temperature_c": None, "power_mw": 0, "throttle": None},
        ],
        [],
    ],
    "notes": ["simulated"],
    "inflation": None,
}


@pytest.fixture
def run_side(make_session):
    """The side of a simulated run of 2 blocks of 8 steps with varying times, a step left out, and a GPU's states."""
    session = make_session(steps=8, warmup=2, device_times="lognormal:0.2")
    run = session.run("sync", blocks=2)
    states = ((STATE, UNREAD), ())
    blocks = tuple(replace(block, gpu=gpu) for block, gpu in zip(run.blocks, states, strict=True))
    run, left_out = settled(replace(run, blocks=blocks))
    return side_of_run(result_of(run), left_out + 1)


@pytest.fixture
def written(tmp_path):
    """Write a document, or bytes, and return the path."""

    def write(content):
        path = tmp_path / "baseline.json"
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return path

    return write


@pytest.fixture
def refused(written):
    """Write a document, or bytes, and return what is said of the file, whose name stands in it."""

    def read(content):
        path = written(content)
        with pytest.raises(InputError) as caught:
            baseline.load(path)
        assert 4 == caught.value.exit_code
        assert caught.value.hint
        assert str(path) in str(caught.value)
        assert len(str(caught.value)) < len(str(path)) + 300, "a sentence, not a dump"
        return str(caught.value).replace(str(path), "FILE")

    return read


def changed(place, value):
    """Return the good document with another value at a place: the keys and indices on the way to it."""
    document = copy.deepcopy(GOOD)
    entry = document
    for key in place[:-1]:
        entry = entry[key]
    assert place[-1] in entry or isinstance(entry, list)
    entry[place[-1]] = value
    return document


def without(*place):
    """Return the good document without the entry at a place."""
    document = copy.deepcopy(GOOD)
    entry = document
    for key in place[:-1]:
        entry = entry[key]
    del entry[place[-1]]
    return document


def plain(side):
    """Return a side as values that compare: arrays as lists."""
    values = dataclasses.asdict(side)
    values["windows_ns"] = [windows.tolist() for windows in side.windows_ns]
    if side.tokens is not None:
        columns = ("group", "value_step", "digest")
        values["tokens"] |= {name: getattr(side.tokens, name).tolist() for name in columns}
    return values


def names_in(folder):
    return sorted(entry.name for entry in folder.iterdir())


# A round trip


def test_a_loaded_side_of_a_run_is_the_saved_one(tmp_path, run_side):
    """With the call and the positions, so that a recording is known again."""
    assert 2 == len(run_side.windows_ns)
    assert len(set(run_side.steps_ns.tolist())) > 2, "steps that differ, so that their order is seen"
    assert len(run_side.tokens.digest) > 2
    baseline.save(tmp_path / "b.json", run_side)
    loaded = baseline.load(tmp_path / "b.json")
    assert plain(run_side) == plain(loaded)


def test_a_loaded_side_computes_like_the_saved_one(tmp_path, run_side):
    """Columns are int64 again and fields keep their types: 64 stays an int, 1000.0 a float, False no 0."""
    baseline.save(tmp_path / "b.json", run_side)
    loaded = baseline.load(tmp_path / "b.json")
    columns = [*loaded.windows_ns, loaded.tokens.group, loaded.tokens.value_step, loaded.tokens.digest]
    assert {np.dtype(np.int64)} == {column.dtype for column in columns}
    assert run_side.steps_ns.mean() == loaded.steps_ns.mean()
    assert {name: type(value) for name, value in run_side.fields.items()} == {
        name: type(value) for name, value in loaded.fields.items()
    }
    assert not loaded.is_capture


@pytest.mark.parametrize("work", [(), (("kernel gemm", 5, 40, 0), ("D2H pinned 128", 45, 50, 1))])
def test_a_loaded_side_of_a_capture_is_the_saved_one(tmp_path, build, work):
    """With and without device rows; a capture has no tokens and no reference, and one block."""
    calls = [("cudaLaunchKernel", 0, 3), ("cudaMemcpyAsync", 10, 12), ("cudaStreamSynchronize", 13, 60)]
    result = analyze(build.a_loop(12, 100, calls, work, [("schedule", 62, 95)]), "a.json", Choice())
    side = side_of_capture(result, 13, 1)
    assert bool(work) == (side.parts_ns is not None)
    baseline.save(tmp_path / "b.json", side)
    loaded = baseline.load(tmp_path / "b.json")
    assert plain(side) == plain(loaded)
    assert loaded.is_capture
    assert loaded.tokens is None
    assert loaded.is_right is None


def test_a_run_without_digests_is_saved_and_loaded(tmp_path, make_session):
    """Runs of before have digest -1 for every read, which is none: three empty columns."""
    run = make_session(steps=6, warmup=2).run("sync")
    reads = run.blocks[0].log.reads
    bare = replace(reads, columns=reads.columns | {"digest": np.full(len(reads), -1)})
    block = replace(run.blocks[0], log=replace(run.blocks[0].log, reads=bare))
    side = side_of_run(result_of(replace(run, blocks=(block,))), 0)
    baseline.save(tmp_path / "b.json", side)
    loaded = baseline.load(tmp_path / "b.json")
    assert 0 == len(loaded.tokens.digest) == len(loaded.tokens.group)
    assert plain(side) == plain(loaded)


def test_the_good_file_of_these_tests_is_read(written):
    """Entry by entry; the other tests damage it."""
    side = baseline.load(written(GOOD))
    assert ("sync", "sim", "c0ffee", (0, 3), 2) == (side.label, side.source, side.call, side.positions, side.left_out)
    assert GOOD["fields"] == side.fields
    assert [60, 40, 25] == side.steps_ns.tolist()
    assert [2, 1] == [len(windows) for windows in side.windows_ns]
    assert {"busy:compute": 100, "blocked": 25} == side.parts_ns
    assert (10, 15) == (side.blocked.copy_ns, side.blocked.fence_ns)
    assert {"window_ns": 41.5, "device_busy_ns": None} == side.means_ns
    assert (20.0, True, ("steps-inferred",), ("simulated",)) == (
        side.limit_ns,
        side.is_right,
        side.doubts,
        side.notes,
    )
    assert {"scenario": "stop_flag", "seed": 0} == side.tokens.decided_by
    assert ("outputs", "drafts") == side.tokens.groups
    assert [0, 0, 1] == side.tokens.group.tolist()
    assert [0, 1, 1] == side.tokens.value_step.tolist()
    assert [2**63 - 1, 5, 0] == side.tokens.digest.tolist()
    assert 1 == side.tokens.last_step
    assert ((GpuState(1980, 3201, 41, 5, ("sync boost",)), GpuState(None, 0, None, 0, None)), ()) == side.gpu


@pytest.mark.parametrize(
    "place", [("parts_ns",), ("limit_ns",), ("tokens",), ("is_right",), ("means_ns", "window_ns"), ("fields", "gpu")]
)
def test_what_was_not_observed_is_none(written, place):
    """null in the file is None in the side, not 0."""
    side = baseline.load(written(changed(place, None)))
    value = getattr(side, place[0])
    assert (value if len(place) == 1 else value[place[1]]) is None


@pytest.mark.parametrize("windows", [[[1]], [[2**53]], [[2**52, 2**52]]])
def test_step_times_go_from_1_ns_to_104_days_together(written, windows):
    """2**53 ns are 104.2 days; two steps of half of it are as long together."""
    alone = {"parts_ns": None, "gpu": [], "positions": [0], "blocked": {"copy_ns": 0, "fence_ns": 0}}
    document = changed(("windows_ns",), windows) | alone
    side = baseline.load(written(document))
    assert windows[0] == side.steps_ns.tolist()


# The file


def test_a_file_that_came_meanwhile_is_kept(tmp_path, run_side):
    """Unless it is to be replaced."""
    (tmp_path / "b.json").write_text("precious", encoding="utf-8")
    with pytest.raises(FileExistsError):
        baseline.save(tmp_path / "b.json", run_side, replaces=False)
    assert ["precious"] == [entry.read_text(encoding="utf-8") for entry in tmp_path.iterdir()]


def test_a_saved_file_begins_with_what_it_is(tmp_path, run_side):
    """Its entries are KEYS in this order, the first two saying what it is."""
    baseline.save(tmp_path / "b.json", run_side)
    document = json.loads((tmp_path / "b.json").read_bytes())
    assert list(KEYS) == list(document)
    assert (1, "baseline") == (document["schema_version"], document["kind"])
    assert set(KEYS) == set(GOOD)


def test_a_saved_file_is_small_enough_to_be_committed(tmp_path, run_side):
    """16 steps take less than 8 KiB."""
    assert 16 == len(run_side.steps_ns)
    baseline.save(tmp_path / "b.json", run_side)
    assert (tmp_path / "b.json").stat().st_size < 8 * 1024


def test_a_side_is_saved_over_an_older_one(tmp_path, run_side):
    """The second label is there, and no second file."""
    baseline.save(tmp_path / "b.json", run_side)
    baseline.save(tmp_path / "b.json", replace(run_side, label="async"))
    assert "async" == baseline.load(tmp_path / "b.json").label
    assert ["b.json"] == names_in(tmp_path)


@pytest.mark.parametrize(
    ("expected", "place"),
    [(IsADirectoryError, "folder"), (FileNotFoundError, "missing/b.json"), (NotADirectoryError, "file/b.json")],
)
def test_where_no_file_can_be_nothing_is_left(tmp_path, run_side, expected, place):
    """A folder of that name, no folder around it, a file as the folder: an OSError, and nothing new is there."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(expected):
        baseline.save(tmp_path / place, run_side)
    assert ["file", "folder"] == names_in(tmp_path)
    assert [] == names_in(tmp_path / "folder")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write into a read-only folder")
def test_a_read_only_folder_gets_nothing(tmp_path, run_side):
    """OSError, and the folder stays empty."""
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(OSError):
            baseline.save(tmp_path / "b.json", run_side)
        assert [] == names_in(tmp_path)
    finally:
        tmp_path.chmod(0o755)


# What is a baseline


@pytest.mark.parametrize("before", [b"", b" ", b"\n\n\t ", b"\r\n"])
def test_a_baseline_is_known_by_its_beginning(tmp_path, run_side, before):
    """Of 256 bytes, whatever the file is called and also behind white space, which JSON allows."""
    path = tmp_path / "notes.txt"
    baseline.save(path, run_side)
    assert baseline.is_baseline((before + path.read_bytes())[:256])


@pytest.mark.parametrize("indent", [None, 1, 2, 4, "\t"])
def test_a_baseline_is_known_however_far_it_is_indented(indent):
    """A formatter may have gone over a file under version control."""
    assert baseline.is_baseline(json.dumps(GOOD, indent=indent).encode()[:256])


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"{}",
        b"[]",
        b"SQLite format 3\x00",
        b"\x1f\x8b\x08\x00",
        b"\xff\xfe",
        b'{"schema_version": 3, "id": "20261130-stop_flag-sync", "scenario": "stop_flag"}',
        b'{"schemaVersion": 1, "deviceProperties": [], "traceEvents": []}',
        b'[{"ph": "X", "name": "a", "kind": "baseline"}]',
        b'{"traceEvents": [{"ph": "X", "name": "baseline", "kind": "kernel"}]}',
        b'{"schema_version": 1, "kind": "comparison", "label": "baseline"}',
        b'"kind": "baseline"',
    ],
)
def test_other_files_are_no_baselines(head):
    """Nothing, other JSON, sqlite, gzip, a run.json, chrome traces, a list, another kind of document."""
    assert not baseline.is_baseline(head)


def test_a_saved_runs_own_file_and_a_trace_are_no_baselines(tmp_path, make_session, hostile):
    """As they are really written."""
    from fdprof import store

    (folder,) = store.create(tmp_path, [make_session(steps=6, warmup=2).new_run("sync")])
    kineto = hostile.write_good("kineto", tmp_path)
    for path in (folder / "run.json", kineto):
        assert not baseline.is_baseline(path.read_bytes()[:256])


# Damage: all of the file


def test_a_missing_file_is_refused(tmp_path):
    """The message says what is wrong with it and the hint where such a file comes from."""
    path = tmp_path / "baseline.json"
    with pytest.raises(InputError) as caught:
        baseline.load(path)
    assert (4, f"{path} does not exist") == (caught.value.exit_code, str(caught.value))
    assert "--save-baseline" in caught.value.hint


@pytest.mark.parametrize("make", ["mkdir", "mkfifo"])
def test_what_is_no_file_is_refused(tmp_path, make):
    """A folder, and a pipe that nobody writes into."""
    path = tmp_path / "baseline.json"
    getattr(os, make)(path)
    with pytest.raises(InputError) as caught:
        baseline.load(path)
    assert (4, f"{path} is no regular file") == (caught.value.exit_code, str(caught.value))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"baseline",
        b'{"schema_version": 1, "kind": "baseline"',
        b'{"kind": "baseline"} x',
        b"\xff\xfe{\x00}\x00",
        b"\x1f\x8b\x08\x00\x00\x00\x00\x00",
        b'{"kind": "baseline", "fields": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_what_is_no_json_is_refused(refused, content):
    """Empty, a word, cut, with more behind it, UTF-16, gzip, 100,000 lists in one another."""
    assert refused(content).startswith("cannot read FILE: ")


def test_a_file_cut_anywhere_is_refused(refused, tmp_path, run_side):
    """At 41 places, the last of them before the closing brace, which is the second last byte."""
    baseline.save(tmp_path / "whole.json", run_side)
    content = (tmp_path / "whole.json").read_bytes()
    assert content.endswith(b"}\n")
    places = np.linspace(0, len(content) - 2, 41).astype(int).tolist()
    for place in places:
        assert refused(content[:place]).startswith("cannot read FILE: "), place


@pytest.mark.parametrize(
    ("kind", "content"), [("list", b"[]"), ("list", b"[{}]"), ("str", b'"baseline"'), ("int", b"1")]
)
def test_what_is_no_object_is_refused(refused, kind, content):
    """The message says what it is."""
    assert f"FILE holds a {kind}, expected an object" == refused(content)


@pytest.mark.parametrize("kind", ["comparison", "Baseline", None, 1, ["baseline"], "\x1b[31m", "x" * 1_000])
def test_another_kind_is_refused(refused, kind):
    """The message gives up to 40 characters of it, and no control character raw."""
    said = refused(GOOD | {"kind": kind})
    assert f"FILE is no baseline of fdprof: its kind is {str(kind)[:40]!r}" == said
    assert said.isprintable()


@pytest.mark.parametrize("version", [0, 2, -1, 1.5, 1.0, True, "1", None, [1], "\x1b[31m", 10**100])
def test_another_version_is_refused(refused, version):
    """The message gives it and the version that is read."""
    said = refused(GOOD | {"schema_version": version})
    assert f"FILE has schema_version {str(version)[:40]!r}, this fdprof reads 1" == said
    assert said.isprintable()


# Damage: one entry


@pytest.mark.parametrize("key", KEYS[2:-1])
def test_a_missing_entry_is_refused_by_name(refused, key):
    """Each in turn, but the last, which came later."""
    assert f"FILE has no {key!r}" == refused(without(key))


@pytest.mark.parametrize(("said", "key"), [("has schema_version 'None'", KEYS[0]), ("its kind is 'None'", KEYS[1])])
def test_a_file_that_does_not_say_what_it_is_is_refused(refused, said, key):
    """Kind and version are the first two entries."""
    assert said in refused(without(key))


@pytest.mark.parametrize(
    "place",
    [
        *(("blocked", name) for name in GOOD["blocked"]),
        *(("tokens", name) for name in GOOD["tokens"]),
        *(("gpu", 0, 1, name) for name in GOOD["gpu"][0][1]),
    ],
)
def test_a_missing_entry_of_an_entry_is_refused_by_name(refused, place):
    """Each in turn."""
    assert f"FILE has no {place[-1]!r}" == refused(without(*place))


FIELD = "where a text, a number, true, false or null is expected"
NATURAL, NUMBER = "where an integer >= 0 is expected", "where a number is expected"
TEXT, TRUTH, LIST = "where printable text is expected", "where true or false is expected", "where a list is expected"


@pytest.mark.parametrize(
    ("expected", "place", "value"),
    [
        (TEXT, ("label",), 7),
        (TEXT, ("label",), None),
        (TEXT, ("source",), ["sim"]),
        (FIELD, ("fields", "gpu"), ["H200"]),
        (FIELD, ("fields", "gpu"), {}),
        (LIST, ("windows_ns",), 5),
        (LIST, ("windows_ns",), {"0": [60]}),
        (LIST, ("windows_ns",), None),
        (LIST, ("windows_ns", 0), 60),
        (NATURAL, ("windows_ns", 0, 0), 60.0),
        (NATURAL, ("windows_ns", 0, 0), "60"),
        (NATURAL, ("windows_ns", 0, 0), True),
        (NATURAL, ("windows_ns", 0, 0), None),
        (NATURAL, ("windows_ns", 0, 0), [60]),
        (NATURAL, ("windows_ns", 0, 0), -60),
        (NATURAL, ("windows_ns", 0, 0), 2**63),
        (NATURAL, ("left_out",), -1),
        (NATURAL, ("left_out",), 1.0),
        (NATURAL, ("left_out",), None),
        (NATURAL, ("parts_ns", "blocked"), -25),
        (NATURAL, ("parts_ns", "blocked"), 25.0),
        (NATURAL, ("parts_ns", "blocked"), None),
        (NATURAL, ("blocked", "copy_ns"), -1),
        (NATURAL, ("blocked", "fence_ns"), "15"),
        (NUMBER, ("means_ns", "window_ns"), "41.5"),
        (NUMBER, ("means_ns", "window_ns"), True),
        (NUMBER, ("limit_ns",), "20"),
        (NUMBER, ("limit_ns",), [20]),
        (FIELD, ("tokens", "decided_by", "seed"), [0]),
        (LIST, ("tokens", "groups"), "outputs"),
        (TEXT, ("tokens", "groups", 0), 0),
        (LIST, ("tokens", "group"), 0),
        (NATURAL, ("tokens", "group", 0), -1),
        (NATURAL, ("tokens", "value_step", 0), -1),
        (NATURAL, ("tokens", "digest", 0), -1),
        (NATURAL, ("tokens", "digest", 0), 2**63),
        (NATURAL, ("tokens", "digest", 0), 5.0),
        (NATURAL, ("tokens", "last_step"), -1),
        (TRUTH, ("is_right",), 1),
        (TRUTH, ("is_right",), "true"),
        (LIST, ("doubts",), "steps-inferred"),
        (TEXT, ("doubts", 0), 5),
        (LIST, ("gpu",), {}),
        (LIST, ("gpu",), None),
        (LIST, ("gpu", 0), 5),
        (NATURAL, ("gpu", 0, 0, "sm_clock_mhz"), -1980),
        (NATURAL, ("gpu", 0, 0, "sm_clock_mhz"), 1980.5),
        (LIST, ("gpu", 0, 0, "throttle"), "sync boost"),
        (TEXT, ("gpu", 0, 0, "throttle", 0), 4),
        (LIST, ("notes",), "simulated"),
        (TEXT, ("notes", 0), None),
    ],
)
def test_an_entry_of_a_wrong_type_is_refused_by_its_value(refused, expected, place, value):
    """The message says where, what stands there and what should."""
    said = refused(changed(place, value))
    assert said.startswith(f"FILE: {place[0]}: ")
    assert said.endswith(f"{str(value)[:40]!r} {expected}")


@pytest.mark.parametrize("place", [("fields",), ("parts_ns",), ("blocked",), ("means_ns",), ("tokens",)])
@pytest.mark.parametrize("value", [[], ["a"], "text", 5, True])
def test_an_object_that_is_none_is_refused(refused, place, value):
    """A list, a text, a number and a truth value where an object should be."""
    assert f"FILE: {place[0]}: {str(value)[:40]!r} where an object is expected" == refused(changed(place, value))


@pytest.mark.parametrize("place", [("tokens", "decided_by"), ("gpu", 0, 0)])
@pytest.mark.parametrize("value", [[], "text", 5, None])
def test_an_object_in_an_entry_that_is_none_is_refused(refused, place, value):
    """null too: only the tokens as a whole may be missing."""
    said = refused(changed(place, value))
    assert said.startswith(f"FILE: {place[0]}: ")
    assert said.endswith(f"{str(value)[:40]!r} where an object is expected")


@pytest.mark.parametrize("value", [b"NaN", b"Infinity", b"-Infinity", b"1e999"])
@pytest.mark.parametrize(
    "place",
    [
        ("fields", "device_us"),
        ("windows_ns", 0, 0),
        ("left_out",),
        ("parts_ns", "blocked"),
        ("blocked", "copy_ns"),
        ("means_ns", "window_ns"),
        ("limit_ns",),
        ("tokens", "digest", 0),
        ("tokens", "decided_by", "seed"),
    ],
)
def test_no_number_is_infinite_or_none(refused, place, value):
    """Python's JSON reads NaN and Infinity, which are no JSON, and 1e999 is beyond a double."""
    content = json.dumps(changed(place, "HERE")).encode().replace(b'"HERE"', value)
    assert refused(content).endswith((NATURAL, NUMBER))


@pytest.mark.parametrize("raw", ["\x1b[31mred\x1b[0m", "two\nlines", "\x00", "\x9b2J", "\u202eevil", "\ud800"])
@pytest.mark.parametrize(
    "place",
    [
        ("label",),
        ("source",),
        ("fields", "tracer"),
        ("tokens", "groups", 0),
        ("tokens", "decided_by", "scenario"),
        ("doubts", 0),
        ("gpu", 0, 0, "throttle", 0),
        ("notes", 0),
    ],
)
def test_a_text_that_could_drive_a_terminal_is_refused_and_not_repeated_raw(refused, place, raw):
    """Escape, line end, NUL, one-character CSI, mark of direction, half a character."""
    said = refused(changed(place, raw))
    assert said.startswith(f"FILE: {place[0]}: ")
    assert said.endswith(f"{raw!r} {TEXT}")
    assert said.isprintable()


@pytest.mark.parametrize("place", [("fields",), ("parts_ns",), ("means_ns",), ("tokens", "decided_by")])
def test_a_name_that_could_drive_a_terminal_is_refused(refused, place):
    """Names are printed like texts."""
    said = refused(changed(place, {"\x1b[31m": 0}))
    assert said.startswith(f"FILE: {place[0]}: ")
    assert said.endswith(f"'\\x1b[31m' {TEXT}")


# Damage: entries that do not fit together


@pytest.mark.parametrize(
    "windows",
    [
        [[]],
        [[60, 40], []],
        [[0]],
        [[60, 0], [65]],
        [[2**53 + 1]],
        [[2**52, 2**52 + 1]],
        [[2**63 - 1, 2**63 - 1]],
    ],
)
def test_step_times_that_can_be_none_are_refused(refused, windows):
    """No step in a block, a step of 0 ns, and more than 2**53 ns: 104 days, beyond which sums would not be exact."""
    said = refused(changed(("windows_ns",), windows) | {"parts_ns": None})
    assert "FILE: windows_ns: a block whose step times are none, 0 ns or longer than 104 days together" == said


@pytest.mark.parametrize("parts", [None, {}, {"busy:compute": 100, "blocked": 25}])
def test_a_baseline_without_blocks_is_refused(refused, parts):
    """Nothing could be compared with it, whatever its parts say."""
    said = refused(changed(("windows_ns",), []) | {"parts_ns": parts})
    assert "FILE: windows_ns: no blocks: a baseline has step times" == said


@pytest.mark.parametrize(
    ("total", "parts"),
    [
        (0, {}),
        (124, {"busy:compute": 99, "blocked": 25}),
        (126, {"busy:compute": 100, "blocked": 26}),
        (100, {"busy:compute": 100}),
    ],
)
def test_parts_that_do_not_add_up_to_the_steps_are_refused(refused, total, parts):
    """60 + 40 + 25 ns are 125."""
    assert f"FILE: parts_ns add up to {total}, the steps to 125" == refused(changed(("parts_ns",), parts))


@pytest.mark.parametrize("name", ["group", "value_step", "digest"])
@pytest.mark.parametrize("values", [[], [0, 0], [0, 0, 0, 0]])
def test_token_columns_of_different_length_are_refused(refused, name, values):
    """Three rows in two of the columns, and none, two or four in the third."""
    assert "FILE: the columns of its tokens differ in length" == refused(changed(("tokens", name), values))


@pytest.mark.parametrize(("groups", "group"), [(["outputs", "drafts"], 2), (["outputs"], 1), ([], 0)])
def test_tokens_of_a_group_that_is_not_there_are_refused(refused, groups, group):
    """Two groups are 0 and 1; without groups there is no 0 either."""
    tokens = GOOD["tokens"] | {"groups": groups, "group": [0, 0, group]}
    assert "FILE: tokens of a group that is not there" == refused(GOOD | {"tokens": tokens})


@pytest.mark.parametrize(
    ("said", "place", "value"),
    [
        ("label: it is empty", ("label",), ""),
        ("fields: they do not say which tracer", ("fields", "tracer"), None),
        ("fields: they do not say which tracer", ("fields",), {}),
        ("positions: of 1 blocks, there are 2", ("positions",), [0]),
        ("positions: of 1 blocks, there are 2", ("positions",), [3, 3]),
        ("limit_ns: -1 ns, expected 0 to 2**53", ("limit_ns",), -1),
        ("limit_ns: 1e+308 ns, expected 0 to 2**53", ("limit_ns",), 1e308),
        ("window_ns: 1e+300 ns, expected 0 to 2**53", ("means_ns", "window_ns"), 1e300),
        ("blocked: longer than the steps together", ("blocked", "fence_ns"), 116),  # with 10 more than 60 + 40 + 25
        ("left_out: 100,001 steps of a block", ("left_out",), 100_001),
    ],
)
def test_what_a_comparison_needs_must_be_there(refused, said, place, value):
    """Whose side it is, and whether a tracer ran; and a position for each block."""
    assert f"FILE: {said}" == refused(changed(place, value))


def test_more_blocks_than_a_comparison_takes_are_refused(refused):
    """1,001: resampling them would take minutes and gigabytes."""
    windows = [[60]] * 1001
    said = refused(GOOD | {"windows_ns": windows, "positions": list(range(1001)), "parts_ns": None, "gpu": []})
    assert "FILE: windows_ns: 1,001 blocks, at most 1,000 are compared" == said


def test_blocks_that_last_too_long_together_are_refused(refused):
    """Two blocks of 2**53 ns: each could be one, and their sum would not be exact."""
    said = refused(changed(("windows_ns",), [[2**53], [2**53]]) | {"parts_ns": None, "gpu": []})
    assert "FILE: windows_ns: step times longer than 104 days together" == said


def test_clocks_of_more_blocks_than_there_are_are_refused(refused):
    """Or of fewer, but for none at all."""
    said = refused(changed(("gpu",), GOOD["gpu"] + [[]]))
    assert said.startswith(f"FILE: gpu: states of {len(GOOD['gpu']) + 1} blocks, there are ")


@pytest.mark.parametrize("huge", [10**400, -(10**400), 2**63])
@pytest.mark.parametrize("place", [("limit_ns",), ("means_ns", "window_ns"), ("fields", "device_us")])
def test_a_number_that_no_double_or_column_holds_is_refused(refused, place, huge):
    """It would overflow wherever it is used."""
    said = refused(changed(place, huge))
    assert said.startswith(f"FILE: {place[0]}: ")
    assert said.endswith(NUMBER)


@pytest.mark.parametrize("raw", ["no\u00a0break.json", "two\nlines", "\x1b[31m", "half \ud800"])
def test_what_is_saved_can_be_loaded_whatever_its_texts_are(tmp_path, run_side, raw):
    """Label, notes and parts come from file names and captures; what could drive a terminal is escaped."""
    parts = {f"host:{raw}": sum(run_side.parts_ns.values())}
    path = tmp_path / "baseline.json"
    baseline.save(path, replace(run_side, label=raw, notes=(raw,), parts_ns=parts))
    got = baseline.load(path)
    assert printable(raw) == got.label == got.notes[0]
    assert {f"host:{printable(raw)}": sum(parts.values())} == got.parts_ns


@pytest.mark.parametrize(
    "rewritten",
    [
        json.dumps(GOOD, sort_keys=True),
        json.dumps(GOOD, separators=(",", ":")),
        json.dumps(GOOD, indent=8, sort_keys=True),
    ],
)
def test_a_baseline_that_was_formatted_anew_is_still_one(rewritten):
    """Files that are committed go through formatters."""
    assert baseline.is_baseline(rewritten.encode()[: baseline.HEAD_BYTES])


def test_no_tokens_need_no_groups(written):
    """Three empty columns are what a run without digests has."""
    tokens = GOOD["tokens"] | {"groups": [], "group": [], "value_step": [], "digest": []}
    assert 0 == len(baseline.load(written(GOOD | {"tokens": tokens})).tokens.digest)
