"""The transfers as Parquet, one row each.  See docs/tables.md."""

from fdprof.reports._parquet_bytes import parquet_bytes
from fdprof.reports._tables import HAVE_TRANSFERS, transfers_of
from fdprof.reports.protocol import Reportable


class TransfersParquetReport:
    """One row a transfer."""

    suffix = ".transfers.parquet"
    renders = HAVE_TRANSFERS

    def render(self, result: Reportable) -> bytes:
        return parquet_bytes(*transfers_of(result), result, "transfers")


REPORT = TransfersParquetReport()
