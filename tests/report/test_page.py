"""The page: self-contained, well formed, and faithful to what it is given."""

from __future__ import annotations

import html
import re
import shlex
from pathlib import Path

import pytest
from pages import needs_nothing_else, read

from reprise.cli import main
from reprise.execute.one import audit
from reprise.report import Summary, summarise
from reprise.report.page import page
from reprise.report.tables import columns
from reprise.runs import Run


@pytest.fixture(scope="module")
def rows() -> list[Summary]:
    runs = [
        Run.of(learner=None, retrieval=name, classes=classes, steps=60, replay=4, seed=seed)
        for classes in (10, 12)
        for name in ("iid", "rpr")
        for seed in (0, 1)
    ]
    return summarise([audit(run) for run in runs])


@pytest.fixture(scope="module")
def text(rows: list[Summary]) -> str:
    return page(rows, "reprise audit --retrieval '<b>&'", '0.1"')


def test_page_needs_nothing_else(text: str) -> None:
    attributes = needs_nothing_else(text).attributes
    assert sum(name == "id" for name, _ in attributes) > 100


def test_what_was_given_is_shown_and_escaped(text: str, rows: list[Summary]) -> None:
    assert "<b>&'" not in text
    assert "reprise audit --retrieval '<b>&'" in read(text).text
    assert 'Made by Reprise 0.1" with' in read(text).text
    shown = read(text).text
    for column in columns(rows):
        assert column.meaning in shown
        for cell in column.cells(rows):
            assert cell in shown
    assert shown.count("A stored class came back") == 2
    assert text.count("<svg") == len(rows)


def test_pictures_have_colours_of_the_page(text: str) -> None:
    used = set(re.findall(r"var\(--(\w+)\)", text.partition("<body>")[2]))
    assert {"ink", "muted", "grid", "others", "never", "c0", "c1"} <= used


def test_page_of_the_command_says_how_it_was_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "an audit.html"
    asked = ["audit", "--classes", "10", "--steps", "30", "--retrieval", "iid,rpr", "--plot", str(target)]
    assert main(asked) == 0
    assert str(target) in capsys.readouterr().out
    first = target.read_bytes()
    made = re.search(r"<pre>reprise (.*?)</pre>", read_text(target))
    assert made is not None
    assert main(shlex.split(html.unescape(made[1]))) == 0
    assert target.read_bytes() == first


def read_text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("ending", ["png", "SVG"])
def test_pictures_of_the_command(ending: str, tmp_path: Path) -> None:
    target = tmp_path / f"audit.{ending}"
    assert main(["audit", "--classes", "10", "--steps", "30", "--retrieval", "rpr", "--plot", str(target)]) == 0
    assert target.read_bytes()[:4] == (b"\x89PNG" if ending == "png" else b"<?xm")
