"""The folder of `fdprof capture`: written, read back, and read as the capture that is in it."""

# ruff: noqa: SIM300
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from fdprof import captured
from fdprof.capture import Inflation
from fdprof.captured import Captured
from fdprof.errors import InputError, UsageError
from fdprof.imports import import_capture
from fdprof.supervision import Ended

DATA = Path(__file__).parents[1] / "data" / "h200-2026-11-30"
TRACE = DATA / "torch_fence.kineto.json.gz"

RECORD = Captured(
    tracer="torch",
    tool="torch.profiler 2.9.0",
    command=("python", "engine.py"),
    arguments=("python", "engine.py", "--profile"),
    scenario=None,
    mode=None,
    started_utc="2026-11-30T17:00:00+00:00",
    exit_code=0,
    ended=Ended.EXIT,
    capture="",
    inflation=Inflation(1.04, (1.03, 1.05), "6 processes each way"),
    notes=("no copies' memory kind",),
)


@pytest.fixture
def saved(tmp_path):
    """A captured folder of a real trace."""
    taken = tmp_path / "taken"
    taken.mkdir()
    return captured.save(tmp_path, "one", Path(shutil.copy(TRACE, taken)), RECORD)


def change(folder, **entries):
    """Change entries of capture.json; one that is ... is left out."""
    path = folder / "capture.json"
    document = json.loads(path.read_text()) | entries
    path.write_text(json.dumps({name: value for name, value in document.items() if value is not ...}))


def read(folder):
    return import_capture(folder, lambda _: None)


def test_what_is_saved_is_loaded_again(saved):
    """Every entry, the name of the capture in it too."""
    assert replace(RECORD, capture=TRACE.name) == captured.load(saved)
    assert [TRACE.name, "capture.json"] == sorted((entry.name for entry in saved.iterdir()), reverse=True)


def test_the_document_has_the_entries_of_its_contract(saved):
    """What another program may rely on; unknown is null."""
    document = json.loads((saved / "capture.json").read_text())
    assert (1, "capture") == (document["schema_version"], document["kind"])
    expected = "tracer tool command arguments scenario mode started_utc exit_code ended capture inflation notes"
    assert ["schema_version", "kind", *expected.split()] == list(document)
    assert {"ratio": 1.04, "interval": [1.03, 1.05], "how": "6 processes each way"} == document["inflation"]
    assert (None, "exit") == (document["scenario"], document["ended"])


def test_a_taken_name_gets_a_number(saved, tmp_path):
    """With --repeat there are several captures of one name, and nothing is replaced."""
    other = tmp_path / "taken" / "other.json"
    other.write_text("{}")
    assert [tmp_path / "one", tmp_path / "one-2"] == [saved, captured.save(tmp_path, "one", other, RECORD)]
    assert TRACE.name == captured.load(saved).capture
    assert "other.json" == captured.load(tmp_path / "one-2").capture


def test_what_the_tracer_wrote_under_the_same_stem_goes_with_it(tmp_path):
    """The report in the tracer's own format is worth more than its export; another capture's is not taken."""
    taken = tmp_path / "taken"
    taken.mkdir()
    for name in ("capture.1.sqlite", "capture.1.nsys-rep", "capture.2.sqlite"):
        (taken / name).write_text(name)
    folder = captured.save(tmp_path, "one", taken / "capture.1.sqlite", RECORD)
    assert {"capture.json", "capture.1.sqlite", "capture.1.nsys-rep"} == {entry.name for entry in folder.iterdir()}
    assert ["capture.2.sqlite"] == [entry.name for entry in taken.iterdir()]


def test_a_capture_named_as_the_record_gets_another_name(tmp_path):
    """The record keeps its own."""
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "capture.json").write_text("{}")
    folder = captured.save(tmp_path, "one", taken / "capture.json", RECORD)
    assert "trace.json" == captured.load(folder).capture


def test_nothing_half_written_stays(tmp_path):
    """A folder appears whole or not at all, and no scratch folder stays where it cannot."""
    with pytest.raises(UsageError, match="cannot write"):
        captured.save(tmp_path / "runs", "one", tmp_path / "nowhere" / "trace.json", RECORD)
    assert [] == list((tmp_path / "runs").iterdir())


def test_it_is_read_as_the_capture_in_it_with_what_the_record_says(saved):
    """The importer is the inner one's, so that captures compare wherever they lie."""
    inner, outer = import_capture(TRACE, lambda _: None), read(saved)
    assert ("kineto", inner.tool, inner.rows) == (outer.source, outer.tool, outer.rows)
    assert RECORD.inflation == outer.inflation
    assert (*RECORD.notes, *inner.limits) == outer.limits


def test_a_folder_can_be_the_capture(tmp_path):
    """As a run's folder, or an export as a folder of tables."""
    taken = tmp_path / "taken"
    shutil.copytree(DATA / "stop_flag_async.run", taken / "run")
    assert "run" == read(captured.save(tmp_path, "one", taken / "run", RECORD)).source


@pytest.mark.parametrize(
    ("entries", "limit"),
    [
        ({"ended": "limit", "exit_code": 124}, "ran past the limit"),
        ({"ended": "interrupted", "exit_code": 130}, "was interrupted"),
        ({"ended": "signal", "exit_code": 139}, r"a signal ended the command (exit code 139)"),
        ({"exit_code": 3}, "failed with exit code 3"),
    ],
)
def test_a_command_that_did_not_end_well_limits_the_capture(saved, entries, limit):
    """It stands first among what the capture cannot tell."""
    change(saved, **entries)
    assert limit in read(saved).limits[0]


def test_a_measured_inflation_can_be_added_later(saved):
    """It takes more processes than the capture's own."""
    inflation = Inflation(1.2, None, "one process each way")
    captured.with_inflation(saved, inflation)
    assert inflation == read(saved).inflation
    assert {"ratio": 1.2, "interval": None, "how": "one process each way"} == json.loads(
        (saved / "capture.json").read_text()
    )["inflation"]


def test_words_of_a_command_may_hold_line_ends(saved):
    """`python -c` takes programs; on a terminal they stand escaped."""
    change(saved, command=["python", "-c", "a\nb\x1b[2J\udc80"])
    assert ("python", "-c", r"a\nb\x1b[2J\udc80") == captured.load(saved).command


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"kind": "run"}, "kind is 'run', expected 'capture'"),
        ({"kind": ["capture"]}, "kind is"),
        ({"schema_version": 2}, "schema_version is 2, this fdprof reads 1"),
        ({"schema_version": "1"}, "an integer >= 0 is expected"),
        ({"tool": ...}, "has no 'tool'"),
        ({"tool": "\x1b[2J"}, "printable text is expected"),
        ({"command": "ls"}, "a list is expected"),
        ({"arguments": [1]}, "texts are expected"),
        ({"scenario": 7}, "printable text is expected"),
        ({"exit_code": 256}, "exit_code is 256, expected 0 to 255"),
        ({"exit_code": -9}, "an integer >= 0 is expected"),
        ({"ended": "well"}, "'well' is not a valid Ended"),
        ({"notes": None}, "a list is expected"),
        ({"inflation": 1.04}, "an object is expected"),
        ({"inflation": {"ratio": 0, "interval": None, "how": ""}}, "expected ratios above 0"),
        ({"inflation": {"ratio": 1.1, "interval": [1.2, 1.0], "how": ""}}, "expected ratios above 0"),
        ({"inflation": {"ratio": 1.1, "interval": [1.0, None], "how": ""}}, "a number is expected"),
        ({"inflation": {"ratio": float("nan"), "interval": None, "how": ""}}, "a number is expected"),
        ({"capture": "gone.json"}, "names a capture that is not in the folder: gone.json"),
        ({"capture": "../taken"}, "expected the name of a file or folder beside it"),
        ({"capture": "/etc/passwd"}, "expected the name of a file or folder beside it"),
        ({"capture": "capture.json"}, "expected the name of a file or folder beside it"),
        ({"capture": ".."}, "expected the name of a file or folder beside it"),
        ({"capture": "n" * 5000}, "expected the name of a file or folder beside it"),
        ({"capture": ""}, "expected the name of a file or folder beside it"),
    ],
)
def test_a_damaged_record_names_its_file_and_what_is_wrong(saved, entries, message):
    """InputError, never a traceback, and never a file outside the folder."""
    change(saved, **entries)
    with pytest.raises(InputError) as caught:
        read(saved)
    assert message in str(caught.value)
    assert str(saved / "capture.json") in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{", "{}", "null", "\x00"])
def test_a_file_that_is_no_record_is_refused(saved, text):
    """By its name it is one."""
    (saved / "capture.json").write_text(text)
    with pytest.raises(InputError, match=r"capture\.json"):
        read(saved)


def test_a_link_out_of_the_folder_is_not_followed(saved, tmp_path):
    """A folder from elsewhere may name anything."""
    (saved / "link.json.gz").symlink_to(TRACE)
    change(saved, capture="link.json.gz")
    with pytest.raises(InputError, match="not in the folder"):
        read(saved)


def test_a_captured_folder_in_a_captured_folder_is_not_followed(saved, tmp_path):
    """There is no end to it otherwise."""
    outer = captured.save(tmp_path, "outer", saved, RECORD)
    with pytest.raises(InputError, match="is of no format that fdprof reads"):
        read(outer)


def test_a_folder_that_is_none_is_told_what_there_is(tmp_path):
    """The list of formats has this one."""
    (tmp_path / "capture.json").mkdir()
    with pytest.raises(InputError) as caught:
        read(tmp_path)
    assert caught.value.hint.endswith("folder of `fdprof capture`")
