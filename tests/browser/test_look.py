"""What a study's page shows in a browser: at two sizes, in two colour schemes, and where scripts are off."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from chromium import SCHEMES, SIZES, noting, opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from .conftest import MadePage

NAMES = ("gaps", "seams")

# Of every element with text of its own: how its colour stands out from what is behind it, by WCAG.
CONTRASTS = """
() => {
  const parse = (colour) => {
    const parts = colour.match(/[\\d.]+/g).map(Number);
    return parts.length > 3 ? parts : [...parts, 1];
  };
  const over = (top, under) => under.map((value, place) => top[place] * top[3] + value * (1 - top[3]));
  const known = new Map([[null, [255, 255, 255]]]);
  const back = (node) => {
    if (!known.has(node)) {
      const own = parse(getComputedStyle(node).backgroundColor);
      known.set(node, over(own, own[3] === 1 ? [0, 0, 0] : back(node.parentElement)));
    }
    return known.get(node);
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
  };
  return [...document.querySelectorAll("body, body *:not(script, svg *), svg text")]
    .filter((node) => [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim()))
    .map((node) => {
      const behind = back(node), style = getComputedStyle(node);
      const [a, b] = [light(over(parse(node.tagName === "text" ? style.fill : style.color), behind)), light(behind)];
      const said = `${node.tagName}.${node.getAttribute("class")}: ${node.textContent.slice(0, 40)}`;
      return [Math.max(a, b) / Math.min(a, b), said];
    });
}
"""

# The tables that are wider than the room they have.
CUT_OFF = """
boxes => boxes.filter((box) => box.scrollWidth > box.clientWidth + 1).map((box) => box.getAttribute("aria-label"))
"""

# Of every picture: its size, and how many of its shapes have one.
PICTURES = """
pictures => pictures.map((picture) => {
  const box = picture.getBoundingClientRect();
  const shapes = [...picture.querySelectorAll("path, rect, circle, image")].filter((shape) => {
    const own = shape.getBoundingClientRect();
    return own.width + own.height > 0;
  });
  return [box.width, box.height, shapes.length, picture.getAttribute("aria-label")];
})
"""


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_tables_and_pictures_are_drawn(browser: Browser, made: Callable[[str], MadePage], name: str, size: str) -> None:
    want = made(name)
    with opened(browser, want.file, size) as page:
        assert "agree with the paper's" in page.locator(".verdict").inner_text()
        tables_are_there(page, want)
        pictures_are_there(page, want)
        wide = page.evaluate("[document.scrollingElement.scrollWidth, innerWidth]")
        assert wide[0] <= wide[1] + 1, "the page scrolls sideways"
        page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
        assert page.evaluate("document.scrollingElement.scrollWidth") <= wide[1] + 1, (
            "so it does with lists of runs open"
        )
        assert page.locator("details table tbody tr").last.is_visible()
        if size == "desktop":
            assert page.locator(".scroll:visible").evaluate_all(CUT_OFF) == [], "these tables scroll sideways"
        is_legible(page)


def fits(page: Page) -> None:
    width, window = page.evaluate("[document.scrollingElement.scrollWidth, innerWidth]")
    assert width <= window + 1, "the page scrolls sideways"


def is_legible(page: Page) -> None:
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        found = page.evaluate(CONTRASTS)
        assert len(found) > 10
        assert [one for one in found if one[0] < 4.5] == [], scheme


def tables_are_there(page: Page, want: MadePage) -> None:
    study = want.plan.study
    assert _rows(page, "section:has(> #figures)") == [
        want.cells * len([arm for arm in want.arms if column.arms is None or arm in column.arms])
        for column in study.columns
    ]
    contrasts = len(study.form_contrasts(small=False))
    assert _rows(page, "section:has(> #contrasts)") == [contrasts] * bool(contrasts)
    assert _rows(page, "section:has(> #runs)") == [len(want.arms) * want.plan.seeds] * want.cells
    assert all(count > 0 for count in _rows(page, "main"))


def _rows(page: Page, part: str) -> list[int]:
    return page.locator(f"{part} table").evaluate_all("tables => tables.map((table) => table.tBodies[0].rows.length)")


def pictures_are_there(page: Page, want: MadePage) -> None:
    names = {one.name for one in want.plan.study.form_contrasts(small=False)}
    counts = {
        "contrasts": len(names),
        "figures": len(want.plan.study.columns),
        "waits": want.cells,
        "maps": len(want.arms),
        "curves": want.cells * want.trains,
    }
    for part, count in counts.items():
        assert page.locator(f"section:has(> #{part}) svg").count() == count, part
    every = page.locator("svg").evaluate_all(PICTURES)
    assert len(every) == sum(counts.values())
    for width, height, shapes, label in every:
        assert width > 100, label
        assert height > 60, label
        assert shapes >= (1 if "who met whom" in label else 10), label


@pytest.mark.parametrize("size", SIZES)
def test_the_index_leads_to_the_pages(browser: Browser, made: Callable[[str], MadePage], size: str) -> None:
    with opened(browser, made("gaps").index, size) as page:
        assert page.locator("tbody tr").count() == len(NAMES)
        for name in NAMES:
            row = page.locator("tbody tr", has=page.get_by_role("link", name=name, exact=True))
            assert "agree with the paper's" in row.inner_text()
        fits(page)
        is_legible(page)
        page.get_by_role("link", name="gaps", exact=True).click()
        page.wait_for_url(made("gaps").file.as_uri())
        assert page.locator("svg").first.is_visible()


def test_maps_and_plots_have_colours(browser: Browser, made: Callable[[str], MadePage]) -> None:
    pillow = pytest.importorskip("PIL.Image", reason="reading a picture needs Pillow")
    with opened(browser, made("gaps").file, "desktop") as page:
        for picture, least in (("svg.map", 15), ("section:has(> #waits) svg", 15)):
            shot = pillow.open(BytesIO(page.locator(picture).first.screenshot()))
            assert len(shot.convert("RGB").getcolors(1 << 24)) > least


@pytest.mark.parametrize("name", NAMES)
def test_all_is_readable_without_scripts(browser: Browser, made: Callable[[str], MadePage], name: str) -> None:
    want = made(name)
    with opened(browser, want.file, "phone", scripts=False) as page:
        assert page.locator("button, input, .tip").count() == 0, "nothing offers what does not work"
        assert "agree with the paper's" in page.locator(".verdict").inner_text()
        tables_are_there(page, want)
        pictures_are_there(page, want)
        for table in page.locator("main > section > .scroll, .measure .scroll").all():
            assert table.is_visible()
            assert table.locator("tbody tr").last.is_visible()
        runs = page.locator("details[id^=runs-]").first
        assert not runs.locator("tbody tr").first.is_visible()
        runs.locator("summary").click()
        assert runs.locator("tbody tr").last.is_visible()
        titles = page.locator("svg .mark title").all_text_contents()
        assert any("95% interval" in title for title in titles), "the browser shows these itself"


def test_a_page_that_asks_or_complains_is_caught(browser: Browser, tmp_path: Path) -> None:
    def noted(text: str) -> Any:
        file = tmp_path / "page.html"
        file.write_text(f"<!doctype html><title>made</title>{text}", encoding="utf-8")
        with noting(browser, "desktop") as (page, found):
            page.goto(file.as_uri())
        return found

    noted("<p>nothing to say").check()
    assert noted('<link rel="stylesheet" href="https://example.org/a.css">').fetched == ["https://example.org/a.css"]
    assert noted("<script>console.warn('so')</script>").said == ["so"]
    assert "gone" in noted("<script>gone()</script>").said[0]
    with pytest.raises(AssertionError, match="the page said"):
        noted("<script>console.error('so')</script>").check()
