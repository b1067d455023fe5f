"""The paper's tables, with the digits it prints."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files

from reprise.lab.printed_tables import Rows

CODES = {
    "reused_k4": "reused:4",
    "reused_k16": "reused:16",
    "imagenet_r": "imagenet-r",
    "er_ace": "er-ace",
    "derpp": "der++",
    "derpp_refresh": "refresh",
    ">=33": "33+",
}
"""What the tables call by another name than this library does."""


@cache
def table(name: str) -> Rows:
    """A table of the paper, row by row. What it does not print is an empty string."""
    text = (files("reprise.studies") / "tables" / f"{name}.csv").read_text(encoding="utf-8")
    return tuple(
        {column: CODES.get(value, value) for column, value in row.items()} for row in csv.DictReader(text.splitlines())
    )
