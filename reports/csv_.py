"""The CSV report: the ledger, one row a step; of an overhead one row a condition.  See docs/tables.md."""

from fdprof.reports._csv_text import csv_text
from fdprof.reports._tables import steps_of
from fdprof.reports.protocol import EVERY, Reportable


class CsvReport:
    """One line of names, then one a step."""

    suffix = ".csv"
    needs = ("pandas",)
    renders = EVERY

    def render(self, result: Reportable) -> str:
        return csv_text(*steps_of(result))


REPORT = CsvReport()
