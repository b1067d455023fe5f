"""Reading pages: that tags close in order, that a page needs nothing else, and what it says."""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = {"meta", "br", "img", "link", "hr", "input"}


class Reader(HTMLParser):
    """Checks that tags close in order, and gathers text and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.text += data


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


def needs_nothing_else(text: str) -> Reader:
    """Nothing is fetched from elsewhere; ids are unique, and all that is referred to is there."""
    reader = read(text)
    assert not re.search(r"https?:|@import|<script[^>]|<link|<img|fetch\(|import\(", text)
    assert set(re.findall(r"url\((.)", text)) <= {"#"}
    for name, value in reader.attributes:
        if name in ("src", "href", "xlink:href", "action"):
            assert value is not None
            assert value.startswith(("#", "data:image/png;base64,"))
    ids = [value for name, value in reader.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    wanted = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text)
    assert {one or other for one, other in wanted} <= set(ids)
    # A colour that is drawn is one that the page knows by name, so that nothing is black on black.
    assert set(re.findall(r"(?:fill|stroke): ?(#[0-9a-f]{6})", text)) == set()
    assert set(re.findall(r"var\(--(\w+)\)", text)) <= set(re.findall(r"--(\w+):#", text))
    return reader
