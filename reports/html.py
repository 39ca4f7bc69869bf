"""The HTML report: one file with everything in it, for people to look at and to send on.

It opens without a network and runs nothing but its own script: what a capture says is text in it, never markup.
"""

from fdprof.reports.protocol import EVERY, Reportable


class HtmlReport:
    """One page: what it comes to, where a step goes, the numbers, the timeline of chosen steps."""

    suffix = ".html"
    needs = ("jinja2",)
    renders = EVERY

    def render(self, result: Reportable) -> str:
        from fdprof.reports._html.page import page_of  # jinja2 is behind it, and other reports must not wait for it

        return page_of(result)


REPORT = HtmlReport()
