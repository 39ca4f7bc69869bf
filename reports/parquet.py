"""The Parquet report: the ledger, one row a step; of an overhead one row a condition.  See docs/tables.md."""

from fdprof.reports._parquet_bytes import parquet_bytes
from fdprof.reports._tables import steps_of
from fdprof.reports.protocol import EVERY, Reportable

from fdprof.analysis.inflation import OverheadResult


class ParquetReport:
    """One row a step."""

    suffix = ".parquet"
    needs = ("pandas", "pyarrow")
    renders = EVERY

    def render(self, result: Reportable) -> bytes:
        return parquet_bytes(*steps_of(result), result, "conditions" if isinstance(result, OverheadResult) else "steps")


REPORT = ParquetReport()
