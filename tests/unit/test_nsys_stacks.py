# ruff: noqa: SIM300 - the expected value stands first
"""Call stacks in exports of nsys: native ones in sqlite, Python's in JSON."""

import base64
import json
import sqlite3
import struct
from contextlib import closing

import pytest

from fdprof.call_stacks import Frame, origins_of
from fdprof.errors import InputError
from fdprof.importers._nsys_stacks import PythonStack, call_stacks, messages, python_stacks

STRINGS = ["cudaStreamSynchronize_v3020", "cudaLaunchKernel", "decode", "main", "/app/engine", "libcudart.so.13"]
PROCESS = 77 << 24
THREAD = PROCESS | 78


def an_export(path, calls, chains=(), texts=()):
    """Write the tables that stacks are read from, with the columns of schema 3.x.

    `calls` are (start, end, thread, correlation, name, chain), `chains` (id, symbol, module, depth).
    """
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        connection.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate(STRINGS))
        connection.execute(
            "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, "
            "correlationId INTEGER, nameId INTEGER, callchainId INTEGER)"
        )
        connection.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, ?, ?)", calls)
        connection.execute(
            "CREATE TABLE CUDA_CALLCHAINS (id INTEGER, symbol INTEGER, module INTEGER, unresolved INTEGER, "
            "originalIP INTEGER, stackDepth INTEGER)"
        )
        rows = [(number, symbol, module, 0, 0, depth) for number, symbol, module, depth in chains]
        connection.executemany("INSERT INTO CUDA_CALLCHAINS VALUES (?, ?, ?, ?, ?, ?)", rows)
        if texts:
            connection.execute("CREATE TABLE DIAGNOSTIC_EVENT (timestamp INTEGER, text TEXT)")
            connection.executemany("INSERT INTO DIAGNOSTIC_EVENT VALUES (0, ?)", [(text,) for text in texts])
    return path


def a_payload(*frames, kind=1):
    """Return the payload of a mark: the head's fourth word and each line's upper half are not cleared by nsys."""
    data = struct.pack("<IIII", kind, 1, len(frames), 0x7F96)
    for function, file, line in frames:
        data += struct.pack("<QQII", function, file, line, 0x218)
    return {"BinaryData": [{"SchemaId": "4294967299", "Data": base64.b64encode(data).decode("ascii")}]}


def a_json(path, strings, *events):
    lines = [{"data": strings}, *({"Type": event["Type"], "NvtxEvent": event} for event in events)]
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines), encoding="utf-8")
    return path


def a_mark(time_ns, payload, thread=THREAD, domain=3):
    return {"Type": 34, "Timestamp": str(time_ns), "Payload": payload, "GlobalTid": str(thread), "DomainId": domain}


DOMAIN = {"Type": 75, "Timestamp": "1", "Text": "Python Backtrace", "GlobalTid": str(THREAD), "DomainId": "3"}


def test_a_stack_is_read_with_the_innermost_frame_first(tmp_path):
    """By depth, whatever the order of the rows."""
    chains = [(5, 3, 4, 2), (5, 0, 5, 0), (5, 2, 4, 1)]
    (found,) = call_stacks(an_export(tmp_path / "x.sqlite", [(10, 90, THREAD, 1, 0, 5)], chains))
    assert ("cudaStreamSynchronize_v3020", 1, ()) == (found.call, found.count, found.python)
    assert ["cudaStreamSynchronize_v3020", "decode", "main"] == [frame.function for frame in found.native]
    assert Frame("decode", "/app/engine") == found.native[1]


def test_calls_of_one_stack_are_counted_together_and_calls_without_are_left_out(tmp_path):
    """Two chains of the same frames are one stack; NULL is no stack."""
    calls = [(10, 90, THREAD, 1, 0, 5), (100, 190, THREAD, 2, 0, 6), (200, 201, THREAD, 3, 0, None)]
    chains = [(5, 2, 4, 0), (6, 2, 4, 0)]
    assert [2] == [stack.count for stack in call_stacks(an_export(tmp_path / "x.sqlite", calls, chains))]


def test_a_call_that_is_in_the_file_twice_counts_once(tmp_path):
    """nsys writes a call with a stack again under another class, with the same correlation."""
    calls = [(10, 90, THREAD, 1, 0, None), (9, 91, THREAD, 1, 0, 5), (10, 90, THREAD + 1, 1, 0, 5)]
    (found,) = call_stacks(an_export(tmp_path / "x.sqlite", calls, [(5, 2, 4, 0)]))
    assert 2 == found.count  # one on each thread


def test_chains_that_are_counted_from_1_and_referred_to_from_0_are_matched(tmp_path):
    """Exports of 2022: the call that refers to 0 has chain 1."""
    calls = [(10, 90, THREAD, 1, 0, 0), (100, 190, THREAD, 2, 0, 1)]
    found = call_stacks(an_export(tmp_path / "x.sqlite", calls, [(1, 2, 4, 0), (2, 3, 4, 0)]))
    assert ["decode", "main"] == [stack.native[0].function for stack in found]


def test_a_chain_that_is_not_in_the_file_is_no_stack(tmp_path):
    """Not a stack of no frames, which would be counted as one."""
    assert () == call_stacks(an_export(tmp_path / "x.sqlite", [(10, 90, THREAD, 1, 0, 9)], [(5, 2, 4, 0)]))


def test_an_export_without_the_tables_has_no_stacks(tmp_path):
    """Nothing of CUDA was traced."""
    with closing(sqlite3.connect(tmp_path / "x.sqlite")) as connection, connection:
        connection.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
    assert () == call_stacks(tmp_path / "x.sqlite")
    assert () == messages(tmp_path / "x.sqlite")


def test_messages_are_given_once_each(tmp_path):
    """In the order in which they come."""
    path = an_export(tmp_path / "x.sqlite", [], texts=["b", "a", "b"])
    assert ("b", "a") == messages(path)


def test_pythons_stack_goes_to_the_call_that_began_last_before_it(tmp_path):
    """It is taken as the call returns, or a moment later; one long after is none of its."""
    calls = [(10, 90, THREAD, 1, 0, None), (1000, 2000, THREAD, 2, 0, None), (3000, 4000, THREAD, 3, 0, None)]
    path = an_export(tmp_path / "x.sqlite", calls)
    first, second, late = (Frame(name, "/app/a.py", 1) for name in ("first", "second", "late"))
    stacks = [
        PythonStack(THREAD, 95, (first,)),
        PythonStack(THREAD, 1999, (second,)),
        PythonStack(THREAD, 10**9, (late,)),
        PythonStack(THREAD + 1, 50, (late,)),
    ]
    assert {(first,), (second,)} == {stack.python for stack in call_stacks(path, stacks)}


def test_pythons_stacks_are_read_from_json(tmp_path):
    """As nsys 2024.2 writes it: strings by number, the angle brackets of <module> as in HTML."""
    strings = ["inner", "/app/a.py", "&lt;module&gt;"]
    path = a_json(tmp_path / "x.json", strings, DOMAIN, a_mark(500, a_payload((0, 1, 4), (2, 1, 8))))
    expected = PythonStack(THREAD, 500, (Frame("inner", "/app/a.py", 4), Frame("<module>", "/app/a.py", 8)))
    assert (expected,) == python_stacks(path)


def test_payloads_of_other_domains_are_not_pythons_stacks(tmp_path):
    """NCCL has binary payloads too; a domain's number is its process's own."""
    mark = a_mark(500, a_payload((0, 1, 4)))
    elsewhere = a_mark(500, a_payload((0, 1, 4)), thread=THREAD + (1 << 24))
    path = a_json(tmp_path / "x.json", ["inner", "/app/a.py"], DOMAIN, mark | {"DomainId": 4}, elsewhere)
    assert () == python_stacks(path)


@pytest.mark.parametrize(
    "data", [b"", b"short", struct.pack("<IIII", 1, 1, 9, 0), struct.pack("<IIII", 1, 1, 1 << 31, 0)]
)
def test_a_payload_of_another_layout_is_left_out(tmp_path, data):
    """The layout is nobody's promise: what does not fit it is not guessed at."""
    payload = {"BinaryData": [{"Data": base64.b64encode(data).decode("ascii")}]}
    assert () == python_stacks(a_json(tmp_path / "x.json", [], DOMAIN, a_mark(1, payload)))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]\n",
        '{"data": 3}\n',
        '{"data": []}\n{"NvtxEvent": {"BinaryData"',
        '{"data": []}\n{"NvtxEvent": {"GlobalTid": "x", "BinaryData": 1}}\n',
        '{"data": []}\n{"NvtxEvent": {"Payload": {"BinaryData": [{"Data": "A"}]}}}\n',
        '{"data": []}\n{"NvtxEvent": {"Payload": {"BinaryData": {"Data": "A"}}}}\n',
        '{"data": []}\n' + "[" * 100000 + '"BinaryData"\n',
        '{"data": []}\n["BinaryData"]\n',
    ],
)
def test_a_damaged_json_export_is_an_input_error(tmp_path, text):
    """And no traceback."""
    (tmp_path / "x.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"x\.json"):
        python_stacks(tmp_path / "x.json")


def test_the_stacks_of_a_real_export_of_2022_are_main(captures):
    """saxpy: its 15 cudaMemcpy are all called by main; the file has each of them twice."""
    stacks = call_stacks(captures / "nsys" / "schema_2_9_doubled_api_rows.sqlite")
    (copies,) = origins_of(stacks)
    assert ("cudaMemcpy", 15) == (copies.call, copies.count)
    assert [["main"]] == [[frame.function for frame in origin.frames] for origin in copies.origins]
