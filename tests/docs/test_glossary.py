"""The glossary, and the links to it that the site's pages get."""

from __future__ import annotations

import re
import types
from pathlib import Path

import pytest
from scripts import load_script

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def tool() -> types.ModuleType:
    return load_script(ROOT / "tools" / "make_site.py")


def test_terms_are_the_entries_of_the_glossary(tool: types.ModuleType) -> None:
    entries = re.findall(r"^### (.+)$", (DOCS / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(entries) == sorted(tool.TERMS)
    assert len({tool.anchor(entry) for entry in entries}) == len(entries)


def test_the_first_use_of_a_term_is_a_link(tool: types.ModuleType) -> None:
    text = (
        "# A tape\n\n`tape` and [a tape](x.md), ![a tape](y.png)\n\n| tape |\n|---|\n\n```\na tape\n```\n\n"
        "::: a.tape\n\nTwo tapes of a run; a tape, and again a run.\n"
    )
    changed = tool.with_terms(text, "../glossary.md", own=set())
    assert changed == text.replace(
        "Two tapes of a run", "Two [tapes](../glossary.md#tape) of a [run](../glossary.md#run)"
    )
    assert tool.with_terms(text, "glossary.md", own={"tape", "run"}) == text


def test_terms_are_linked_once_a_page(tool: types.ModuleType, tmp_path: Path) -> None:
    tool.lay_out(tmp_path)
    found = set()
    for page in tmp_path.rglob("*.md"):
        links = re.findall(r"glossary\.md#([^)]+)\)", page.read_text(encoding="utf-8"))
        if page.name != "glossary.md":
            assert len(set(links)) == len(links), f"a term is linked twice in {page.name}"
            found |= set(links)
    assert found <= {tool.anchor(term) for term in tool.TERMS}
    assert len(found) > 35


def test_a_page_does_not_link_the_terms_it_defines(tool: types.ModuleType) -> None:
    assert {"store", "record", "identity", "claim"} <= tool.own_terms(DOCS / "store.md")
    assert "tape" not in tool.own_terms(DOCS / "store.md")
