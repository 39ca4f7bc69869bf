"""fdprof.recordings: folders and rows as the collector leaves them, whole, cut or damaged."""

# ruff: noqa: SIM300 - the expected value stands first
import json

import numpy as np
import pytest

from fdprof.errors import InputError
from fdprof.recordings import errors_in, read_process, recordings_in, row_sizes

RANGE = {"name": "a", "start_ns": 5, "end_ns": 9}
CALL = {"call": "cudaLaunchKernel", "start_ns": 1, "end_ns": 2}
WORK = {"kind": "kernel", "name": "k", "start_ns": 3, "end_ns": 4}


def test_row_sizes_are_those_of_rows_h():
    """By hand: 2 u64 + 4 u32 = 32, 3 + 5 and 4 u8 = 48, 3 + 4 = 40, 3 + 6 = 48, 1 + 4 = 24, 2 + 2 = 24, 4 u32 = 16."""
    assert (32, 48, 40, 48, 24, 24, 16, 16) == row_sizes()


# Which folders are a recording


def test_recordings_are_grouped_by_their_number_and_not_by_name(tmp_path, a_process):
    """PID-1 of two processes is one recording; 10 comes after 9; PID-1-2 is a second program of the same process."""
    for process, number in ((7, 10), (7, 9), (7, 1), (200, 1), (7, "1-2")):
        a_process(tmp_path, process, number)
    found = [[path.name for path in paths] for paths in recordings_in(tmp_path)]
    assert [["200-1", "7-1", "7-1-2"], ["7-9"], ["7-10"]] == found


@pytest.mark.parametrize("name", ["7", "7-", "-1", "7-1-", "a-1", "7-1x", "7-1-2-3", "1" * 10 + "-1"])
def test_other_names_are_no_recording(tmp_path, a_process, name):
    """Though all that is in them is."""
    a_process(tmp_path).rename(tmp_path / name)
    assert [] == recordings_in(tmp_path)


def test_a_folder_without_its_beginning_is_no_recording(tmp_path, a_process):
    """A process that was killed between the two made the folder."""
    (a_process(tmp_path) / "begin.json").unlink()
    assert [] == recordings_in(tmp_path)


def test_an_empty_folder_holds_neither_recordings_nor_errors(tmp_path):
    assert ([], ()) == (recordings_in(tmp_path), errors_in(tmp_path))


def test_errors_are_told_once_each(tmp_path):
    """Two processes with the same reason, one with another; bytes that are no text do not break it."""
    (tmp_path / "1.error").write_text("no CUPTI\n")
    (tmp_path / "2.error").write_text("no CUPTI\n")
    (tmp_path / "3.error").write_bytes(b"bad \xff\n")
    (tmp_path / "4.txt").write_text("no error\n")
    assert ("no CUPTI", "bad \ufffd") == errors_in(tmp_path)


# What one process left


def test_a_whole_process_has_no_limits(tmp_path, a_process):
    """Its tool names CUPTI's version, and not the file it came from, which is a path of that machine."""
    process = read_process(
        a_process(tmp_path, api=[CALL], work=[WORK], ranges=[RANGE], threads={100: "py thon", 7: ""})
    )
    assert (100, (), ("NVIDIA H200",)) == (process.number, process.limits, process.devices)
    assert process.tool.endswith("collector, CUPTI 130000")
    assert {100: "py thon", 7: ""} == process.threads
    assert {(0, 1): "cudaLaunchKernel"} == process.callbacks
    assert {"k", "a"} == set(process.names.values())
    assert [1, 1, 1, 0, 0, 0, 0, 0] == [len(rows) for rows in process.rows.values()]


def test_a_recording_of_ranges_only_names_no_cupti(tmp_path, a_process):
    end = {"end_ns": 1, "dropped": 0, "untimed": 0, "not_written": 0, "cupti": "", "devices": [], "error": ""}
    assert read_process(a_process(tmp_path, end=end)).tool.endswith(", collector")


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ({"dropped": 1234}, "process 100: CUPTI dropped 1,234 records"),
        ({"untimed": 2}, "process 100: 2 pieces of device work were not over at the end"),
        ({"not_written": 5}, "process 100: 5 rows could not be written: the disk was full, say"),
        ({"error": "no CUPTI"}, "process 100: CUDA was not traced: no CUPTI"),
    ],
)
def test_what_was_lost_is_said(tmp_path, a_process, what, said):
    """One sentence each, and no other."""
    folder = a_process(tmp_path)
    end = json.loads((folder / "end.json").read_text())
    (folder / "end.json").write_text(json.dumps(end | what))
    assert (said,) == read_process(folder).limits


# A process that was killed


def test_a_killed_process_is_read_up_to_where_calls_and_work_are_both_there(tmp_path, a_process):
    """Calls end at 20 and 65, work at 50: 50 is the last time of which both are known.

    The call to 20 and the work to 50 stay, the ranges to 49 and 50 too; the call to 65 and the range to 51 go, with
    their sync row and overhead; an event's record has no time and stays.
    """
    folder = a_process(
        tmp_path,
        end=None,
        api=[CALL | {"end_ns": 20}, CALL | {"end_ns": 65}],
        work=[WORK | {"end_ns": 50}],
        ranges=[RANGE | {"end_ns": end} for end in (49, 50, 51)],
        syncs=[{"start_ns": 20, "end_ns": 65}],
        events=[{"event": 1}],
        overhead=[{"start_ns": 1, "end_ns": 50}, {"start_ns": 1, "end_ns": 52}],
    )
    process = read_process(folder)
    kept = {name: rows["end_ns"].tolist() for name, rows in process.rows.items() if "end_ns" in rows.dtype.names}
    assert {"api": [20], "work": [50], "ranges": [49, 50], "syncs": [], "overhead": [50]} == kept
    assert (1, {}, ()) == (len(process.rows["events"]), process.threads, process.devices)
    (limit,) = process.limits
    assert limit.startswith("process 100 ended before the collector could")


def test_a_killed_process_is_read_up_to_its_last_call_where_work_came_later(tmp_path, a_process):
    """Calls to 20, work to 30 and 50: what the host did after 20 is not here, and a step would look idle."""
    works = [WORK | {"end_ns": end} for end in (15, 30, 50)]
    process = read_process(a_process(tmp_path, end=None, api=[CALL | {"end_ns": 20}], work=works))
    assert ([20], [15]) == (process.rows["api"]["end_ns"].tolist(), process.rows["work"]["end_ns"].tolist())


def test_a_killed_process_without_cuda_keeps_every_range(tmp_path, a_process):
    """Nothing of CUPTI is held back there."""
    process = read_process(a_process(tmp_path, end=None, ranges=[RANGE, RANGE | {"end_ns": 10**12}]))
    assert 2 == len(process.rows["ranges"])


@pytest.mark.parametrize("cut", [1, 39, 41, 79])
def test_a_part_of_a_row_at_the_end_of_a_file_is_left_out(tmp_path, a_process, cut):
    """Three rows of 40 bytes without their last 1, 39, 41 or 79 bytes: 2, 2, 1 and 1 whole ones."""
    folder = a_process(tmp_path, end=None, ranges=[RANGE] * 3)
    path = folder / "ranges"
    path.write_bytes(path.read_bytes()[:-cut])
    assert 2 - (cut > 40) == len(read_process(folder).rows["ranges"])


def test_a_name_that_was_cut_off_is_left_out(tmp_path, a_process):
    """Without its line's end it may be half a name."""
    folder = a_process(tmp_path, end=None, ranges=[RANGE, RANGE | {"name": "whole?"}])
    path = folder / "names"
    path.write_text(path.read_text()[:-3])
    assert {1: "a"} == read_process(folder).names


def test_nothing_but_the_beginning_is_an_empty_process(tmp_path, a_process):
    process = read_process(a_process(tmp_path, end=None))
    assert [0] * 8 == [len(rows) for rows in process.rows.values()]


# Texts


def test_control_characters_of_a_name_are_shown_as_question_marks(tmp_path, a_process):
    """Escape sequences, other line ends and bytes that are no text; blanks and digits in front are the name's own."""
    folder = a_process(tmp_path)
    (folder / "names").write_bytes("1 \x1b[31m\x85\u2028\n2  7 x\n3 \n4 ".encode() + b"\xff\n")
    assert {1: "?[31m??", 2: " 7 x", 3: "", 4: "\ufffd"} == read_process(folder).names


# Damage


@pytest.mark.parametrize("name", ["begin.json", "end.json"])
@pytest.mark.parametrize("content", ["", "{", "[]", "null", "{}", '{"process": -1}', '{"process": "1"}', "\0"])
def test_a_damaged_document_is_refused_by_name(tmp_path, a_process, name, content):
    folder = a_process(tmp_path)
    (folder / name).write_text(content)
    with pytest.raises(InputError, match=name) as caught:
        read_process(folder)
    assert caught.value.hint


@pytest.mark.parametrize(
    "change",
    [
        {"dropped": -1},
        {"untimed": 1.5},
        {"not_written": None},
        {"cupti": 7},
        {"devices": "H200"},
        {"devices": [3]},
        {"error": ["\x1b"]},
    ],
)
def test_a_wrong_entry_of_the_end_is_refused(tmp_path, a_process, change):
    folder = a_process(tmp_path)
    end = json.loads((folder / "end.json").read_text())
    (folder / "end.json").write_text(json.dumps(end | change))
    with pytest.raises(InputError, match=r"end\.json"):
        read_process(folder)


@pytest.mark.parametrize("name", ["api", "streams", "names", "callbacks", "threads"])
def test_a_missing_file_is_refused_by_name(tmp_path, a_process, name):
    folder = a_process(tmp_path)
    (folder / name).unlink()
    with pytest.raises(InputError, match=f"cannot read .*{name}: No such file"):
        read_process(folder)


@pytest.mark.parametrize(
    ("name", "line"),
    [("names", "x a"), ("names", "1"), ("callbacks", "0 a"), ("callbacks", "0 1"), ("threads", "-1 a")],
)
def test_a_line_without_its_number_is_refused(tmp_path, a_process, name, line):
    folder = a_process(tmp_path)
    (folder / name).write_text(f"{line}\n")
    with pytest.raises(InputError, match=f"{name}: the line '{line}' is not numbers and a name"):
        read_process(folder)


def test_rows_have_the_values_of_their_bytes(tmp_path, a_process):
    """One row of api, byte by byte: little-endian, without gaps."""
    folder = a_process(tmp_path)
    numbers = (2**63 + 1).to_bytes(8, "little") + (2**64 - 1).to_bytes(8, "little")
    (folder / "api").write_bytes(numbers + b"".join(n.to_bytes(4, "little") for n in (1, 2**32 - 1, 3, 4)))
    (row,) = read_process(folder).rows["api"]
    assert (2**63 + 1, 2**64 - 1, 1, 2**32 - 1, 3, 4) == tuple(int(value) for value in row)
    assert np.dtype("<u8") == row["start_ns"].dtype
