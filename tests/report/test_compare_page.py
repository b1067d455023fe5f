"""The page and the pictures of a comparison: the verdict first, then figures, curves, what differs, and doubts."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from pages import needs_nothing_else
from records import PROVENANCE, audit_record, record, run_of

from reprise.lab.comparison import RunComparison, compare_runs
from reprise.report.compare_page import page
from reprise.report.run_figures import save

CLEAR = compare_runs(
    [record("rpr", seed, 0.3 + 0.01 * seed) for seed in range(3)], [record("iid", seed) for seed in (0, 1, 2)]
)
DOUBTFUL = compare_runs(
    [record(seed=seed, run=run_of(seed=seed, learner__name="<er>", descent__lr=0.1)) for seed in range(14)],
    [record(seed=seed, provenance=PROVENANCE | {"torch": "<2.14>"}) for seed in range(1, 15)],
)
AUDITS = compare_runs(
    *([audit_record(name, seed) for seed in range(3)] for name in ("rpr", "fixed")), metric="audit.max"
)
SINGLE = compare_runs([record("rpr")], [record("iid")])
APART = compare_runs([record("rpr")], [record("iid", 1)])
ALL = {"clear": CLEAR, "doubtful": DOUBTFUL, "audits": AUDITS, "single": SINGLE, "apart": APART}


@pytest.mark.parametrize("found", ALL.values(), ids=ALL)
def test_page_says_all_and_needs_nothing_else(found: RunComparison) -> None:
    text = page(found, "reprise runs compare '<b>'", "0.1.0")
    reader = needs_nothing_else(text)
    said = " ".join(reader.text.split())
    assert (
        said.index(found.verdict) < said.index("Figures") < said.index("Waits and curves") < said.index("What differs")
    )
    for sentence in found.doubts:
        assert sentence in said
    for one in found.differs:
        assert one.name in said
    assert ("What is doubtful" in said) == bool(found.doubts)
    assert text.count("<svg") == (2 if found is AUDITS else 6)
    assert "<er>" not in text
    assert "<b>'" not in text


@pytest.mark.parametrize("found", [DOUBTFUL, AUDITS], ids=["doubtful", "audits"])
def test_pictures_are_files_of_their_kind(found: RunComparison) -> None:
    assert save(found, "png")[:4] == b"\x89PNG"
    assert ET.fromstring(save(found, "svg")).tag.endswith("svg")


def test_same_runs_give_the_same_file() -> None:
    assert save(CLEAR, "svg") == save(CLEAR, "svg")
