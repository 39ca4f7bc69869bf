"""fdprof.documents: JSON files that appear whole or not at all, and the checks of what is read from one."""

# ruff: noqa: SIM300 - the expected value stands first
import errno
import json
import os
import resource

import pytest

from fdprof.documents import (
    boolean,
    damage_in,
    entries,
    natural,
    number,
    read_json,
    require_file,
    text,
    write_json,
    write_text,
)
from fdprof.errors import InputError

HINT = "do something about it"


def refusal(caught):
    """Return what the user is told of a refused file: exit code, message and hint."""
    return caught.value.exit_code, str(caught.value), caught.value.hint


def names_in(folder):
    return sorted(entry.name for entry in folder.iterdir())


# Writing


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"a": [1, 2.5, None, True, "text"], "b": {"c": []}},
        {"large": 2**63 - 1, "exact": 0.1, "µ": "×\n\x1b\u2028"},
    ],
)
def test_what_is_written_is_what_is_read(tmp_path, document):
    """Integers up to 2**63 - 1, doubles and any text come back, and in the same order."""
    write_json(tmp_path / "file.json", document)
    read = read_json(tmp_path / "file.json", HINT)
    assert document == read
    assert list(document) == list(read)


def test_a_document_has_a_line_an_entry_and_ends_with_a_line_end(tmp_path):
    """A change of one number is a change of one line, as a file under version control should have it."""
    write_json(tmp_path / "file.json", {"a": 1, "b": [2]})
    assert '{\n "a": 1,\n "b": [\n  2\n ]\n}\n' == (tmp_path / "file.json").read_text(encoding="utf-8")


def test_a_text_is_written_in_utf_8_and_every_one_may_read_it(tmp_path):
    """µ is the bytes C2 B5; the file has mode 644, although its scratch file was private."""
    path = tmp_path / "file"
    write_text(path, "5 µs\n")
    assert b"5 \xc2\xb5s\n" == path.read_bytes()
    assert 0o644 == path.stat().st_mode & 0o777


def test_a_file_that_is_there_is_replaced_and_nothing_is_left_beside_it(tmp_path):
    """One file after two writes, with all of the second text and nothing of the longer first one."""
    path = tmp_path / "file"
    write_text(path, "the first, longer text")
    write_text(path, "second")
    assert "second" == path.read_text(encoding="utf-8")
    assert ["file"] == names_in(tmp_path)


def test_a_link_is_written_through(tmp_path):
    """The link stays a link, and the file that it names, in another folder, has the text."""
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "file", tmp_path / "link"
    target.write_text("old", encoding="utf-8")
    link.symlink_to(target)
    write_text(link, "new")
    assert link.is_symlink()
    assert "new" == target.read_text(encoding="utf-8")
    assert ["link", "real"] == names_in(tmp_path)
    assert ["file"] == names_in(tmp_path / "real")


@pytest.mark.parametrize(
    ("expected", "place"),
    [(IsADirectoryError, "folder"), (FileNotFoundError, "missing/file"), (NotADirectoryError, "file/below")],
)
def test_where_no_file_can_be_the_system_says_so_and_nothing_is_left(tmp_path, expected, place):
    """A folder of that name, no folder around it, a file as the folder: what was there is all that is there."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("old", encoding="utf-8")
    with pytest.raises(expected):
        write_text(tmp_path / place, "new")
    assert ["file", "folder"] == names_in(tmp_path)
    assert [] == names_in(tmp_path / "folder")
    assert "old" == (tmp_path / "file").read_text(encoding="utf-8")


def test_a_write_that_fails_halfway_leaves_the_old_file_and_nothing_else(tmp_path):
    """A file may have 1,000 bytes, as on a full disk, and the text has 100,000: 'old' is still there, and alone."""
    path = tmp_path / "file"
    path.write_text("old", encoding="utf-8")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, hard))
    try:
        with pytest.raises(OSError) as caught:
            write_text(path, "x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert errno.EFBIG == caught.value.errno
    assert "old" == path.read_text(encoding="utf-8")
    assert ["file"] == names_in(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write into a read-only folder")
def test_a_read_only_folder_gets_nothing(tmp_path):
    """PermissionError, which is an OSError; the folder stays empty."""
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(PermissionError):
            write_text(tmp_path / "file", "new")
        assert [] == names_in(tmp_path)
    finally:
        tmp_path.chmod(0o755)


def test_what_is_no_json_is_refused_before_a_file_is_made(tmp_path):
    """A set is no JSON: TypeError, and the file of before is still there."""
    write_json(tmp_path / "file.json", {"a": 1})
    with pytest.raises(TypeError, match="set is not JSON serializable"):
        write_json(tmp_path / "file.json", {"a": {1}})
    assert {"a": 1} == read_json(tmp_path / "file.json", HINT)
    assert ["file.json"] == names_in(tmp_path)


# Reading


@pytest.mark.parametrize(
    ("said", "content"),
    [
        ("Expecting value: line 1 column 1", b""),
        ("Expecting value: line 1 column 7", b'{"a": nothing}'),
        ("Expecting ',' delimiter: line 2 column 1", b'{"a": 1\n'),
        ("Extra data: line 1 column 4", b"{} {}"),
        ("can't decode byte 0xff in position 0", b"\xff\xfe{\x00}\x00"),
        ("Exceeds the limit", b'{"a": ' + b"1" * 10_000 + b"}"),
        ("maximum recursion depth exceeded", b'{"a": ' + b"[" * 200_000),
    ],
)
def test_what_is_no_json_is_refused_with_its_file_and_place(tmp_path, said, content):
    """Empty, a word, cut, two documents, UTF-16, a number of 10,000 digits and 200,000 brackets deep: exit code 4."""
    path = tmp_path / "file.json"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_json(path, HINT)
    code, message, hint = refusal(caught)
    assert (4, HINT) == (code, hint)
    assert message.startswith(f"cannot read {path}: ")
    assert said in message


@pytest.mark.parametrize(
    ("kind", "document"),
    [("list", []), ("list", [{"a": 1}]), ("str", "{}"), ("int", 1), ("NoneType", None), ("bool", True)],
)
def test_a_document_that_is_no_object_is_refused(tmp_path, kind, document):
    """The message says what it is instead."""
    path = tmp_path / "file.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_json(path, HINT)
    assert (4, f"{path} holds a {kind}, expected an object", HINT) == refusal(caught)


def test_a_file_that_is_missing_is_refused(tmp_path):
    """The message names it."""
    path = tmp_path / "file.json"
    with pytest.raises(InputError, match="No such file or directory") as caught:
        read_json(path, HINT)
    assert str(caught.value).startswith(f"cannot read {path}: ")


@pytest.mark.parametrize("make", ["mkdir", "mkfifo"])
def test_what_has_a_files_name_and_is_none_is_refused_and_not_waited_for(tmp_path, make):
    """A folder and a pipe that nobody writes into; opening the pipe would never end."""
    path = tmp_path / "file.json"
    getattr(os, make)(path)
    for ask in (read_json, require_file):
        with pytest.raises(InputError) as caught:
            ask(path, HINT)
        assert (4, f"{path} is no regular file", HINT) == refusal(caught)


def test_a_file_and_a_missing_one_are_no_wrong_kind_of_file(tmp_path):
    """`require_file` leaves a missing file to the reader, which says why it cannot be read."""
    (tmp_path / "file").write_bytes(b"")
    require_file(tmp_path / "file", HINT)
    require_file(tmp_path / "missing", HINT)


@pytest.mark.parametrize(
    ("said", "read"),
    [
        (" has no 'b'", lambda entry: entry["b"]),
        (": 'int' object is not subscriptable", lambda entry: entry["a"]["b"]),
        (": 'int' object has no attribute 'items'", lambda entry: entry["a"].items()),
        (": '1' where printable text is expected", lambda entry: text(entry["a"])),
    ],
)
def test_what_damage_raises_names_the_file(tmp_path, said, read):
    """KeyError, TypeError, AttributeError and ValueError of {"a": 1} become exit code 4."""
    path = tmp_path / "file.json"
    with pytest.raises(InputError) as caught, damage_in(path, HINT):
        read({"a": 1})
    assert (4, f"{path}{said}", HINT) == refusal(caught)


@pytest.mark.parametrize("error", [InputError("of another file", "its hint"), RuntimeError("a bug")])
def test_what_is_no_damage_stays_what_it_is(tmp_path, error):
    """A refusal that names its own file is not named again, and a bug is not called damage."""
    with pytest.raises(type(error)) as caught, damage_in(tmp_path, HINT):
        raise error
    assert error is caught.value


# One entry


@pytest.mark.parametrize("value", [0, 1, 2**63 - 1])
def test_a_natural_number_goes_from_0_to_what_64_bits_hold(value):
    """Both ends count; 2**63 - 1 is the largest that an int64 column holds."""
    assert value == natural(value)


@pytest.mark.parametrize("value", [-1, 2**63, 1.0, True, "1", None, [1], float("nan")])
def test_what_is_no_natural_number_is_refused(value):
    """1.0, true and "1" are none either: they were not written by fdprof."""
    with pytest.raises(ValueError, match="where an integer >= 0 is expected"):
        natural(value)


@pytest.mark.parametrize("value", [0, -1, 2.5, 10**15, 1e308])
def test_a_number_is_given_as_a_double(value):
    """An integer too: 10**15 is below 2**53, so it stays exact."""
    got = number(value)
    assert value == got
    assert float is type(got)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), True, "1", None, [1.0]])
def test_what_is_no_finite_number_is_refused(value):
    """NaN and infinities can be read from Python's JSON, and no mean can be one."""
    with pytest.raises(ValueError, match="where a number is expected"):
        number(value)


@pytest.mark.parametrize("value", ["", "sync", "5 µs × 2", "/a folder/file.json", "日本"])
def test_a_text_is_given_as_it_is(value):
    """Any script, and spaces."""
    assert value == text(value)


@pytest.mark.parametrize("value", ["\x1b[31mred", "two\nlines", "\x00", "\x9b2J", "\u202eevil", "\ud800", 5, None, []])
def test_what_could_drive_a_terminal_is_no_text(value):
    """Escape, line end, NUL, the one-character CSI, a mark of direction, half a character; and what is no string."""
    with pytest.raises(ValueError, match="where printable text is expected") as caught:
        text(value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("value", [True, False])
def test_a_truth_value_is_given_as_it_is(value):
    """Only true and false of JSON are."""
    assert value is boolean(value)


@pytest.mark.parametrize("value", [0, 1, "true", None, []])
def test_what_is_no_truth_value_is_refused(value):
    """0 and 1 are numbers."""
    with pytest.raises(ValueError, match="where true or false is expected"):
        boolean(value)


@pytest.mark.parametrize("value", [[], [1, "a"]])
def test_a_list_is_given_as_it_is(value):
    """An empty one too."""
    assert value is entries(value)


@pytest.mark.parametrize("value", [{}, "text", 1, None, (1,)])
def test_what_is_no_list_is_refused(value):
    """A text and an object could be iterated over as well, to nonsense."""
    with pytest.raises(ValueError, match="where a list is expected"):
        entries(value)


@pytest.mark.parametrize("check", [natural, number, boolean, entries])
def test_a_refusal_shows_no_more_than_40_characters_of_the_value(check):
    """Of 1,000 x it shows 40, in quotes."""
    with pytest.raises(ValueError) as caught:
        check("x" * 1_000)
    assert str(caught.value).startswith("'" + "x" * 40 + "' where ")
