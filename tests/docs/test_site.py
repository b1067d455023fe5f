"""The site: its navigation, its build, its links, and search in a browser."""

from __future__ import annotations

import fcntl
import html
import importlib.util
import json
import os
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from chromium import NONE, SCHEMES, chromium, find_chromium, noting
from scripts import load_script

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PROJECT = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def tool() -> types.ModuleType:
    return load_script(ROOT / "tools" / "make_site.py")


def leaves(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    for one in nav if isinstance(nav, list) else nav.values() if isinstance(nav, dict) else ():
        yield from leaves(one)


def test_every_page_is_in_the_navigation_once() -> None:
    listed = list(leaves(PROJECT["nav"]))
    assert len(set(listed)) == len(listed)
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert pages <= set(listed)
    assert [one for one in set(listed) - pages if not (ROOT / one).is_file()] == []


def test_links_out_of_docs_lead_into_the_site(tool: types.ModuleType, tmp_path: Path) -> None:
    layout = tool.Layout(tmp_path)
    layout.add(DOCS / "index.md")
    layout.pages()
    index = (tmp_path / "index.md").read_text(encoding="utf-8")
    assert "](results/README.md)" in index
    assert "](examples/01_own_loop.py.md)" in index
    assert "](examples/plugins/index.md)" in index
    assert "](learners/der++.md)" in index
    assert (tmp_path / "examples" / "plugins" / "my_learner.py.md").is_file()
    assert "](../findings.md)" in (tmp_path / "results" / "README.md").read_text(encoding="utf-8")
    assert "../results" not in index


def test_code_is_left_alone(tool: types.ModuleType) -> None:
    text = "a\n```python\na\n```\na\n```\na\n```\n"
    assert tool.outside_code(text, lambda part: part.replace("a", "b")) == ("b\n```python\na\n```\nb\n```\na\n```\n")


# The built site ---------------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """The anchors of a page, what it links to, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {str(given[name]) for name in ("id", "name") if given.get(name)}
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))
        if given.get("src") or (tag == "link" and given.get("rel") == "stylesheet"):
            self.loads.append(str(given.get("src") or given["href"]))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("zensical") is None:
        pytest.skip("no zensical: it comes with the extra 'docs', for Python 3.11 or later")
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, lock = base / "built", (base / "built.lock").open("w")
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # processes that share the tests build it once
        if not (folder / "whole").exists():
            command = [sys.executable, "tools/make_site.py", "--into", str(folder)]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=120)
            assert done.returncode == 0, done.stdout + done.stderr
            (folder / "whole").touch()
    return folder / "site"


def test_site_is_whole(site: Path) -> None:
    pages = {path: Page(path) for path in site.rglob("*.html") if path.stem != "404"}
    assert len(pages) > 60
    broken = []
    for path, page in pages.items():
        assert [one for one in page.loads if re.match(r"https?:|//", one)] == [], "it loads from elsewhere"
        for link in page.links + page.loads:
            where, _, anchor = unquote(link).partition("#")
            if re.match(r"[a-z]+:|//", where):
                continue
            target = (path.parent / where).resolve() if where else path
            if not target.is_file() or (anchor and target in pages and anchor not in pages[target].anchors):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert broken == []
    unread = [path.name for path in (site / "reference").glob("*.html") if ":::" in path.read_text(encoding="utf-8")]
    assert unread == [], "an entry of the reference was not made"


def test_signatures_show_no_names_of_ours(site: Path) -> None:
    """Defaults are values: no private constant, no function that makes one, no `field(…)` of a dataclass."""
    signature = re.compile(r'doc-signature highlight">.*?</pre>', re.DOTALL)
    shown = [
        " ".join(html.unescape(re.sub("<[^>]+>", "", found)).partition(">")[2].split())
        for page in (site / "reference").glob("*.html")
        for found in signature.findall(page.read_text(encoding="utf-8"))
    ]
    assert len(shown) > 300
    assert [one for one in shown if re.search(r"field\(|lambda|(?<![\w'\"])_[A-Za-z]|NOBODY|0x", one)] == []
    assert any(one.startswith("Tape( ") and one.endswith("moved: Ids = ..., excluded: Ids = ..., )") for one in shown)
    assert any("exclude: Iterable[Hashable] = ()" in one for one in shown)


def test_search_knows_pages_and_names(site: Path) -> None:
    titles = {item["title"] for item in json.loads((site / "search.json").read_text(encoding="utf-8"))["items"]}
    text = " ".join(titles)
    assert {"Glossary", "Troubleshooting", "Command line"} <= titles
    assert all(name in text for name in ("ReplayBuffer", "RandomisedPass", "check_schedule"))


def test_a_link_that_leads_nowhere_stops_the_build(tmp_path: Path) -> None:
    if importlib.util.find_spec("zensical") is None:
        pytest.skip("no zensical: it comes with the extra 'docs', for Python 3.11 or later")
    (tmp_path / "pages").mkdir()
    (tmp_path / "zensical.toml").write_text('[project]\nsite_name = "x"\ndocs_dir = "pages"\n', encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    for text, status in (("# A\n[a](#a)\n", 0), ("# A\n[a](b.md)\n", 1), ("# A\n[a](#b)\n", 1)):
        (tmp_path / "pages" / "index.md").write_text(text, encoding="utf-8")
        assert subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60).returncode == status


def test_pages_fit_and_search_works_from_disk(site: Path) -> None:
    if find_chromium() is None:
        pytest.skip(NONE)
    with chromium() as browser:
        for size, scheme in (("phone", SCHEMES[1]), ("desktop", SCHEMES[0])):
            with noting(browser, size, scheme=scheme) as (page, noted):
                for name in ("schedules", "command_line", "reference/memory"):
                    page.goto((site / f"{name}.html").as_uri())
                    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} is too wide"
                if size == "desktop":
                    page.keyboard.press("Control+k")
                    page.wait_for_timeout(300)
                    page.keyboard.type("reservoir", delay=50)
                    page.get_by_text("Which balanced reservoir the paper means").first.wait_for()
                noted.check()
