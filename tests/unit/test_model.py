# ruff: noqa: SIM300 - the expected value stands first
"""fdprof.model: tables, sizes and the few derived properties."""

import dataclasses

import numpy as np
import pytest

from fdprof.errors import FdprofError
from fdprof.model import KERNELS, Group, Table, TensorSpec, TokenCheck

SCHEMA = {"a": "int32", "b": "int64"}


def test_a_table_takes_the_dtypes_of_its_schema():
    """Plain lists become columns of the declared dtype."""
    table = Table.of(SCHEMA, {"a": [1, 2], "b": [3, 4]})
    assert ("int32", "int64", 2) == (table["a"].dtype, table["b"].dtype, len(table))


@pytest.mark.parametrize("columns", [{"a": [1]}, {"a": [1], "b": [1], "c": [1]}, {}])
def test_a_missing_or_extra_column_is_named(columns):
    """The message lists the columns got and those expected."""
    with pytest.raises(FdprofError) as error:
        Table.of(SCHEMA, columns)
    assert f"table has columns {sorted(columns)}, expected ['a', 'b']" == str(error.value)


def test_columns_of_different_length_are_refused():
    """Lengths 2 and 3 do not make a table."""
    with pytest.raises(FdprofError, match=r"differ in length: \[2, 3\]"):
        Table.of(SCHEMA, {"a": [1, 2], "b": [1, 2, 3]})


def test_rows_become_columns_in_the_schemas_order():
    """(1, 10), (2, 20) are a = 1, 2 and b = 10, 20."""
    table = Table.of_rows(SCHEMA, [(1, 10), (2, 20)])
    assert ([1, 2], [10, 20]) == (table["a"].tolist(), table["b"].tolist())


def test_no_rows_make_an_empty_table_with_all_columns():
    """An empty table still has its schema."""
    table = Table.of_rows(KERNELS, [])
    assert (0, set(KERNELS)) == (len(table), set(table.columns))


def test_tables_are_equal_when_names_and_values_are():
    """Another value or another column name makes them differ; a table is not its dict."""
    table = Table.of_rows(SCHEMA, [(1, 10)])
    assert table == Table.of_rows(SCHEMA, [(1, 10)])
    assert table != Table.of_rows(SCHEMA, [(1, 11)])
    assert table != Table.of_rows({"a": "int32", "c": "int64"}, [(1, 10)])
    assert table != {"a": [1], "b": [10]}


def test_logs_are_equal_when_all_their_arrays_are(build):
    """One ns in one step's start or one kernel makes logs differ."""
    log = build.a_log([0, 10], 20, kernels=[(1, 2)])
    assert log == build.a_log([0, 10], 20, kernels=[(1, 2)])
    assert log != build.a_log([0, 11], 20, kernels=[(1, 2)])
    assert log != build.a_log([0, 10], 21, kernels=[(1, 2)])
    assert log != build.a_log([0, 10], 20, kernels=[(1, 3)])
    assert log != "a block log"


def test_sizes_are_elements_times_item_size():
    """(64, 1) int64 is 512 B, one bool is 1 B, and a group is their sum."""
    tokens, flag = TensorSpec("tokens", (64, 1), "int64"), TensorSpec("flag", (1,), "bool")
    assert (512, 1, 513) == (tokens.size_bytes, flag.size_bytes, Group("outputs", (tokens, flag)).size_bytes)


def test_records_are_frozen(build):
    """A record cannot be changed after it was made."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        build.a_run().mode = "async"


@pytest.mark.parametrize(("expected", "right", "stop_seen"), [(True, 4, True), (False, 3, True), (False, 4, False)])
def test_tokens_are_right_when_all_values_are_and_the_stop_was_seen(expected, right, stop_seen):
    """A loop that ends only because its stamps were full is not right."""
    check = TokenCheck(4, right, 2, 0, 0, None, 0, stop_seen)
    assert expected is check.is_right


def test_the_limit_is_the_longer_of_device_and_host_work(build):
    """50 against 20 is 50, 50 against 70 is 70."""
    assert 50 == build.a_run(device_work_ns=50, host_work_ns=20).limit_ns
    assert 70 == build.a_run(device_work_ns=50, host_work_ns=70).limit_ns


def test_a_run_with_a_profile_is_simulated(build):
    """Only the simulator has a device profile."""
    simulated = dataclasses.replace(build.ENVIRONMENT, profile="h200")
    assert build.a_run(environment=simulated).is_simulated
    assert not build.a_run().is_simulated


def test_an_int64_column_keeps_absolute_ns():
    """1.7e18 + 1 ns survives the table."""
    at = 1_700_000_000_000_000_001
    assert at == Table.of_rows(KERNELS, [(0, 0, at, at + 1)])["start_ns"][0]
    assert np.int64 == Table.of_rows(KERNELS, [(0, 0, at, at + 1)])["start_ns"].dtype
