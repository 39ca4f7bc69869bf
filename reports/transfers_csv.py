"""The transfers as CSV, one row each.  See docs/tables.md."""

from fdprof.reports._csv_text import csv_text
from fdprof.reports._tables import transfers_of
from fdprof.reports.protocol import HAVE_STEPS, Reportable


class TransfersCsvReport:
    """One line of names, then one a transfer."""

    suffix = ".transfers.csv"
    needs = ("pandas",)
    renders = HAVE_STEPS

    def render(self, result: Reportable) -> str:
        return csv_text(*transfers_of(result))


REPORT = TransfersCsvReport()
