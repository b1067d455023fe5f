"""Speed: how many steps of training a machine does in a second, beside a loop as it is commonly written."""

from reprise.bench.fleet import measure
from reprise.bench.results import Report, Row
from reprise.bench.show import as_markdown, as_tables, write_page

__all__ = ["Report", "Row", "as_markdown", "as_tables", "measure", "write_page"]
