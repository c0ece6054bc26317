"""The page of a release: one HTML file that shows what is guaranteed, what is there and what is hidden.

It loads nothing, works without scripts, and is drawn from nothing but the release. `write` makes the file, `page` the
text of it; `make_report` and `write_charts` give its charts as SVG and PNG.
"""

from dptally.report.writing import make_report, page, write, write_charts

__all__ = ["make_report", "page", "write", "write_charts"]
