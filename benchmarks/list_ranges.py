"""List the NVTX ranges and CUDA calls of an nsys sqlite export: name, count, mean in µs.

usage: python benchmarks/list_ranges.py EXPORT.sqlite
"""

import sqlite3
import sys

RANGES = """
    SELECT coalesce(e.text, s.value), count(*), avg(e.end - e.start) / 1000.0, min(e.int64Value), max(e.int64Value)
    FROM NVTX_EVENTS e LEFT JOIN StringIds s ON s.id = e.textId
    WHERE e.eventType IN (59, 60) GROUP BY 1 ORDER BY 2 DESC, 1
"""
CALLS = """
    SELECT s.value, count(*), avg(r.end - r.start) / 1000.0
    FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s ON s.id = r.nameId GROUP BY 1 ORDER BY 2 DESC LIMIT 15
"""


def main() -> None:
    database = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
    print("range                     count   mean µs   payload")
    for name, count, mean, low, high in database.execute(RANGES):
        payload = "" if low is None else f"{low}..{high}"
        print(f"{name:<24} {count:>6} {mean:>9.1f}   {payload}")
    print("call                                     count   mean µs")
    for name, count, mean in database.execute(CALLS):
        print(f"{name:<40} {count:>5} {mean:>9.1f}")


if __name__ == "__main__":
    main()
