"""What a tracer's own record of a process holds: calls by name and rows by table, a step."""

import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

from fdprof.errors import EnvironmentMissing, InputError


def calls_of_ours(folder: Path, steps: int) -> dict[str, Any]:
    """Return what our collector recorded below a folder; EnvironmentMissing where it could not begin."""
    from fdprof.recordings import errors_in, read_process, recordings_in

    recordings = folder / "recordings"
    why = errors_in(recordings)
    if why:
        raise EnvironmentMissing(f"the collector could not start: {'; '.join(why)}")
    tables: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    for process in (read_process(path) for paths in recordings_in(recordings) for path in paths):
        tables.update({name: len(rows) for name, rows in process.rows.items()})
        api = process.rows["api"]
        for key, count in Counter(zip(api["domain"].tolist(), api["callback"].tolist(), strict=True)).items():
            calls[process.callbacks.get(key, "") or str(key)] += count
    return _a_step(tables, calls, steps)


def calls_of_nsys(folder: Path, steps: int) -> dict[str, Any]:
    """Return what nsys's report in a folder holds; EnvironmentMissing or InputError where there is none to be had."""
    from fdprof.nsys_tool import export, make_report, require_nsys

    nsys = require_nsys()
    report, exported = folder / "report.nsys-rep", folder / "report.sqlite"
    raw = next(iter([*folder.glob("*.qdstrm"), *(folder / "tmp").rglob("*.qdstrm")]), None)
    if not report.exists():
        if raw is None:
            raise InputError(f"nsys left no report; its folder has {sorted(path.name for path in folder.iterdir())}")
        make_report(nsys, raw, report)
    export(nsys, report, exported)
    tables: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    connection = sqlite3.connect(exported)
    try:
        named = connection.execute("select name from sqlite_master where type = 'table'").fetchall()
        for (table,) in named:
            if table.startswith("CUPTI_ACTIVITY_KIND_") or table == "NVTX_EVENTS":
                (rows,) = connection.execute(f'select count(*) from "{table}"').fetchone()
                tables[table.removeprefix("CUPTI_ACTIVITY_KIND_").lower()] = rows
        if "runtime" in tables:
            joined = "CUPTI_ACTIVITY_KIND_RUNTIME call join StringIds text on text.id = call.nameId"
            calls.update(dict(connection.execute(f"select text.value, count(*) from {joined} group by 1").fetchall()))
    except sqlite3.Error as error:
        raise InputError(f"nsys's export cannot be read: {error}") from error
    finally:
        connection.close()
    return _a_step(tables, calls, steps)


def _a_step(tables: Counter[str], calls: Counter[str], steps: int) -> dict[str, Any]:
    return {
        "tables": {name: count / steps for name, count in tables.items()},
        "calls": {name: count / steps for name, count in calls.most_common()},
    }
