"""What a study's page does: tables sort and filter, figures say their values, and numbers lead to their runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from chromium import opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

    from .conftest import MadePage

NUMBER = re.compile(r"[-+]?\d[\d,]*\.?\d*(e-?\d+)?(?= to | of | r$|%?$)")


def texts(table: Locator, *, shown: bool = False) -> list[list[str]]:
    """The cells of a table, row by row; those of rows that are shown alone, if asked."""
    found: list[list[str]] = table.evaluate(
        "(table, shown) => [...table.tBodies[0].rows].filter((row) => !shown || row.offsetParent)"
        ".map((row) => [...row.cells].map((cell) => cell.textContent.trim()))",
        shown,
    )
    return found


def value(text: str) -> tuple[float, float] | None:
    """The number that a cell begins with, and how far rounding moved it at most; none if it holds words, or nothing."""
    found = NUMBER.match(text.replace("−", "-"))
    if found is None:
        return None
    digits, _, power = found[0].replace(",", "").partition("e")
    return float(f"{digits}e{power or 0}"), 0.5 * 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))


def is_sorted(column: Sequence[str], *, down: bool) -> bool:
    """Numbers in order, as far as their digits tell, and what is none after them; words each in one block."""
    values = [value(text) for text in column]
    numbers = [one for one in values if one is not None]
    if not numbers:
        return sum(a != b for a, b in pairwise(column)) == len({*column}) - 1
    if down:
        numbers.reverse()
    return all(a[0] - b[0] <= a[1] + b[1] for a, b in pairwise(numbers)) and None not in values[: len(numbers)]


def table_of(page: Page, part: str) -> Locator:
    return page.locator(f"section:has(> #{part}) table").first


@pytest.mark.parametrize(("name", "part"), [("seams", "contrasts"), ("gaps", "figures")])
def test_a_head_sorts_its_column(browser: Browser, made: Callable[[str], MadePage], name: str, part: str) -> None:
    with opened(browser, made(name).file, "desktop") as page:
        table = table_of(page, part)
        before, heads = texts(table), table.locator("thead th")
        for place, head in enumerate(heads.all()):
            for way in ("ascending", "descending"):
                head.locator("button").click()
                rows = texts(table)
                assert head.get_attribute("aria-sort") == way
                assert is_sorted([row[place] for row in rows], down=way == "descending"), (head.inner_text(), way)
                assert sorted(rows) == sorted(before), "no row is lost"
            assert table.locator("th[aria-sort=ascending], th[aria-sort=descending]").count() == 1


def test_a_head_sorts_by_keys(browser: Browser, made: Callable[[str], MadePage]) -> None:
    with opened(browser, made("gaps").file, "desktop") as page:
        table = table_of(page, "figures")
        head = table.locator("thead th", has_text="ours")
        table.locator("thead th button").first.focus()
        for _ in range(2):
            page.keyboard.press("Tab")
        before = texts(table)
        for key, down in (("Enter", False), ("Space", True), ("Enter", None), ("Enter", False)):
            page.keyboard.press(key)
            if down is None:
                assert head.get_attribute("aria-sort") == "none"
                assert texts(table) == before, "a third time brings back the order of the page"
                continue
            assert head.get_attribute("aria-sort") == ("descending" if down else "ascending")
            assert is_sorted([row[2] for row in texts(table)], down=down)


@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_the_box_filters_rows(browser: Browser, made: Callable[[str], MadePage], size: str) -> None:
    with opened(browser, made("seams").file, size) as page:
        table = table_of(page, "figures")
        box = page.locator("section:has(> #figures) .filter input").first
        every = texts(table)
        for words in ("rpr", "LT10 rpr", "nothing of the kind"):
            box.fill(words)
            want = [row for row in every if all(word in " ".join(row).lower() for word in words.lower().split())]
            assert texts(table, shown=True) == want
            assert page.locator(".filter .count").filter(has_text=f"{len(want)} of {len(every)}").is_visible()
        box.fill("")
        assert texts(table, shown=True) == every


def plot_of(page: Page) -> Locator:
    return page.locator("section:has(> #figures) svg.plot").first


def points(marks: Locator) -> list[tuple[float, float]]:
    """Where the dots of marks stand in the window."""
    found: list[tuple[float, float]] = marks.evaluate_all(
        "marks => marks.map((mark) => mark.querySelector('.dot').getBoundingClientRect())"
        ".map((box) => [box.x + box.width / 2, box.y + box.height / 2])"
    )
    return found


def says_row(tip: str, rows: Sequence[Sequence[str]], place: int) -> None:
    """That a tip is of that row of a table: its cell, its arm, and our figure as it stands there."""
    cell, arm, ours, *_ = rows[place]
    assert tip.startswith(f"{cell}, {arm}, "), tip
    assert f"\nours {ours}, " in tip


def test_a_figure_answers_to_the_pointer_and_to_keys(browser: Browser, made: Callable[[str], MadePage]) -> None:
    with opened(browser, made("gaps").file, "desktop") as page:
        rows, plot, tip = texts(table_of(page, "figures")), plot_of(page), page.locator(".tip")
        assert not tip.is_visible()
        plot.evaluate("plot => plot.scrollIntoView({ block: 'center' })")
        ours = plot.locator(".mark:not(.paper)")
        assert ours.count() == len(rows)
        for place, (x, y) in enumerate(points(ours)):
            page.mouse.move(x, y)
            assert tip.is_visible()
            says_row(tip.inner_text(), rows, place)
            box = tip.bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 1280
        for row, (x, y) in zip(rows, points(plot.locator(".mark.paper")), strict=True):
            page.mouse.move(x, y)
            assert f"{row[0]}, {row[1]}, " in tip.inner_text()
            assert f"the paper's {row[3]}" in tip.inner_text()
        page.mouse.move(2, 2)
        assert not tip.is_visible()
        plot.press("ArrowRight")
        said = set()
        for _ in range(plot.locator(".mark").count()):
            page.keyboard.press("ArrowRight")
            assert tip.is_visible()
            said.add(tip.inner_text())
        assert len(said) == plot.locator(".mark").count(), "keys reach ours and the paper's"
        for row in rows:
            assert any(f"the paper's {row[3]}" in one for one in said)
        page.keyboard.press("Escape")
        assert not tip.is_visible()


def test_a_figure_answers_to_a_finger(browser: Browser, made: Callable[[str], MadePage]) -> None:
    with opened(browser, made("gaps").file, "phone") as page:
        rows, plot, tip = texts(table_of(page, "figures")), plot_of(page), page.locator(".tip")
        plot.evaluate("plot => plot.scrollIntoView({ block: 'center' })")
        for place, (x, y) in list(enumerate(points(plot.locator(".mark:not(.paper)"))))[::4]:
            page.touchscreen.tap(x, y)
            assert tip.is_visible(), "the tip stays after the finger is gone"
            says_row(tip.inner_text(), rows, place)
            box = tip.bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 390
        page.touchscreen.tap(5, 5)
        assert not tip.is_visible(), "a touch elsewhere ends it"


def test_lines_and_maps_say_what_is_pointed_at(browser: Browser, made: Callable[[str], MadePage]) -> None:
    with opened(browser, made("seams").file, "desktop") as page:
        tip = page.locator(".tip")
        stop = page.locator("section:has(> #curves) svg.plot").first.locator(".mark").nth(4)
        want = stop.get_attribute("data-tip")
        assert want is not None
        assert want.startswith("after task 5\nuniform: ")
        stop.hover()
        assert tip.inner_text() == want
        each = page.locator("svg.map").first
        each.hover(position={"x": 30, "y": 2})
        counts = [row.split(",") for row in str(each.get_attribute("data-counts")).split(";")]
        box = each.bounding_box()
        assert box is not None
        column, row = int(30 / box["width"] * len(counts)), int(2 / box["height"] * len(counts))
        assert tip.inner_text().endswith(f"\n{counts[row][column - row]} shared batches")
        each.press("ArrowDown")
        low, high = sorted((column, row + 1))
        assert tip.inner_text().endswith(f"\n{counts[low][high - low]} shared batches")
        each.hover(position={"x": 1, "y": 1})
        assert tip.inner_text().endswith("\nclass 0 with itself: no pair") or "each with the others" in tip.inner_text()


@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_a_number_leads_to_its_runs(browser: Browser, made: Callable[[str], MadePage], size: str) -> None:
    want = made("seams")
    with opened(browser, want.file, size) as page:
        rows = texts(table_of(page, "figures"))
        for place in (0, 7, len(rows) - 1):
            cell, arm, ours, *_ = rows[place]
            link = table_of(page, "figures").locator("tbody tr").nth(place).locator("a").first
            runs = page.locator(f"details:has(table caption:text-is('Runs of {cell}'))")
            assert link.inner_text() == ours
            runs.evaluate("runs => (runs.open = true)")
            runs.locator(".filter input").fill("nothing of the kind")
            runs.evaluate("runs => (runs.open = false)")
            link.click()
            assert runs.get_attribute("open") is not None
            assert page.locator("tr:target").locator("th").inner_text() == arm
            top = page.locator("tr:target").evaluate("row => row.getBoundingClientRect().top")
            assert 0 < top < page.viewport_size["height"]  # type: ignore[index]
            lit = [row for row in texts(runs.locator("table")) if row[0] == arm]
            assert runs.locator("tr.lit:visible").count() == len(lit) == want.plan.seeds, "no filter hides them"
            mean = sum(float(row[2]) for row in lit) / len(lit)
            assert mean == pytest.approx(float(ours), abs=0.0011), "the figure is the mean of these runs"
