"""The transfers as Parquet, one row each.  See docs/tables.md."""

from fdprof.reports._parquet_bytes import parquet_bytes
from fdprof.reports._tables import transfers_of
from fdprof.reports.protocol import HAVE_STEPS, Reportable


class TransfersParquetReport:
    """One row a transfer."""

    suffix = ".transfers.parquet"
    needs = ("pandas", "pyarrow")
    renders = HAVE_STEPS

    def render(self, result: Reportable) -> bytes:
        return parquet_bytes(*transfers_of(result), result, "transfers")


REPORT = TransfersParquetReport()
