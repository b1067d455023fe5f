"""One template and one stylesheet: escaped, in the colours of the pictures, and a sentence where jinja2 is missing."""

from __future__ import annotations

import importlib
import re
import sys

import pytest

from reprise.core.extras import NotInstalled
from reprise.report import render
from reprise.report.colours import VARIABLES

CSS = render.stylesheet()
LIGHT, DARK = (dict(re.findall(r"--(\w+):(#[0-9a-f]+);", part)) for part in CSS.split("@media (prefers-color-scheme"))


def test_light_colours_are_those_of_the_pictures() -> None:
    assert VARIABLES.items() <= LIGHT.items()


def test_light_and_dark_know_the_same_colours() -> None:
    assert LIGHT.keys() == DARK.keys()
    assert set(re.findall(r"var\(--(\w+)\)", CSS)) <= LIGHT.keys()


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("mode", [LIGHT, DARK], ids=["light", "dark"])
def test_text_can_be_read(mode: dict[str, str]) -> None:
    """The contrast that WCAG asks of text, 4.5 to 1, and of thick lines, 3 to 1."""
    pairs = [(front, back, 4.5) for front in ("ink", "muted") for back in ("back", "card")]
    pairs += [("good", "goodback", 4.5), ("bad", "badback", 4.5)]
    pairs += [(f"c{place}", "card", 3.0) for place in range(7)]
    for front, back, least in pairs:
        low, high = sorted((luminance(mode[front]), luminance(mode[back])))
        assert (high + 0.05) / (low + 0.05) >= least, (front, back)


def test_what_is_put_in_is_escaped_and_pictures_are_not() -> None:
    picture = render.inline_svg('<?xml?><svg width="1" id="a"><path style="fill: #0072b2"/></svg>', "p-", 'a "picture"')
    assert (
        picture == '<svg role="img" aria-label="a &quot;picture&quot;" id="p-a"><path style="fill: var(--c0)"/></svg>'
    )
    assert isinstance(picture, render.Markup)


def test_a_value_that_is_missing_is_an_error() -> None:
    with pytest.raises(Exception, match="is undefined"):
        render.render("demo")


def test_a_page_without_jinja2_says_which_extra_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    monkeypatch.delitem(sys.modules, "reprise.report.render")
    with pytest.raises(NotInstalled, match=r"^a page needs jinja2, which is not installed; the extra 'plot' brings it"):
        importlib.import_module("reprise.report.render")
