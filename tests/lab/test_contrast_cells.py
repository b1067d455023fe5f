"""Contrasts of a study: in which cells they are taken, and what is found of them in printed tables."""

from __future__ import annotations

from dataclasses import replace

import pytest
from lab.tinystudies import STUDY

from reprise.lab import Cell, Contrast, Printed, PrintedContrast, Term, across, difference, interaction
from reprise.lab.contrast import CellTerm, resolve

CELLS = {
    "a on": {"data": "a", "mask": "on"},
    "a off": {"data": "a", "mask": "off"},
    "b on": {"data": "b", "mask": "on"},
}
ARMS = ("iid", "rpr")
ROWS = (
    {"data": "a", "mask": "on", "retrieval": "rpr", "delta": "1.20", "ci_lo": "0.9", "ci_hi": "1.5"},
    {"data": "a", "mask": "", "retrieval": "iid", "delta": "0.10", "ci_lo": "", "ci_hi": ""},
)


def test_a_difference_is_taken_in_every_cell() -> None:
    found = resolve([difference("rpr", "iid", family="{mask}")], CELLS, ARMS)
    assert [(one.label, one.family) for one in found] == [("a on", "on"), ("a off", "off"), ("b on", "on")]
    assert found[0].terms == (CellTerm(1, "a on", "rpr", "ema.final"), CellTerm(-1, "a on", "iid", "ema.final"))
    assert found[0].plain


def test_a_family_of_a_fact_that_cells_do_not_have_is_named() -> None:
    with pytest.raises(ValueError, match=r"the family '\{storage\}' of the contrast .* they have data, mask"):
        resolve([difference("rpr", "iid", family="{storage}")], CELLS, ARMS)


def test_only_some_cells() -> None:
    assert [one.label for one in resolve([difference("rpr", "iid", only={"data": "b"})], CELLS, ARMS)] == ["b on"]


def test_an_interaction_needs_both_sides() -> None:
    (found,) = resolve([interaction("rpr", "iid", mask=("on", "off"))], CELLS, ARMS)  # b has no cell without a mask
    assert found.label == "a"
    assert [(term.weight, term.cell, term.arm) for term in found.terms] == [
        (1, "a on", "rpr"),
        (-1, "a on", "iid"),
        (-1, "a off", "rpr"),
        (1, "a off", "iid"),
    ]
    assert not found.plain


def test_arms_across_cells() -> None:
    (found,) = resolve([across("rpr", "iid", mask=("on", "off"))], CELLS, ARMS)
    assert [(term.cell, term.arm) for term in found.terms] == [("a on", "rpr"), ("a off", "iid")]


def test_a_term_may_have_a_figure_of_its_own() -> None:
    both = Contrast("EMA − live", (Term(1, "rpr"), Term(-1, "rpr", key="live.final")))
    assert [term.key for term in resolve([both], CELLS, ARMS)[0].terms] == ["ema.final", "live.final"]


def test_cells_that_facts_do_not_tell_apart_are_an_error() -> None:
    cells = {"x": {"mask": "on"}, "y": {"mask": "on"}, "z": {"mask": "off"}}
    with pytest.raises(ValueError, match="x, y do not tell which"):
        resolve([interaction("rpr", "iid", mask=("on", "off"))], cells, ARMS)


def test_a_study_with_an_unknown_arm_is_refused() -> None:
    with pytest.raises(ValueError, match=r"the contrast 'rprr − iid' names an arm 'rprr' .*: did you mean 'rpr'\?"):
        replace(STUDY, contrasts=(difference("rprr", "iid"),))
    with pytest.raises(ValueError, match="'rpr − iid' finds no cells to compare"):  # although another of its name does
        replace(STUDY, contrasts=(difference("rpr", "iid"), difference("rpr", "iid", only={"data": "c"})))


@pytest.mark.parametrize("names", [("iid", "iid"), ()])
def test_arms_have_names_of_their_own(names: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="arms of a study must be some, each of a name of its own"):
        replace(STUDY, arms=names)


def test_validation_and_test_are_not_mixed() -> None:
    trained = {"dataset": "glyphs", "learner": "er"}
    cells = (Cell("a", trained), Cell("b", {**trained, "validation": True}))
    with pytest.raises(ValueError, match="mixes runs tested on validation images with others"):
        replace(STUDY, cells=cells)


def test_printed_figures_are_found_by_facts() -> None:
    delta = Printed(ROWS, "delta")
    assert delta.find({"data": "a", "mask": "on"}, "rpr") == "1.20"
    assert delta.find({"data": "a", "mask": "off"}, "rpr") is None
    assert delta.find({"data": "a", "mask": "off"}, "iid") == "0.10"  # the row does not say which
    assert delta.find({"data": "c"}, "rpr") is None
    assert Printed(ROWS, "ci_lo").find({"data": "a"}, "iid") is None  # nothing is printed
    with pytest.raises(ValueError, match="2 printed rows fit"):
        delta.find({"data": "a"})


def test_printed_contrasts_say_what_is_printed() -> None:
    printed = PrintedContrast(ROWS, {"retrieval": "rpr"})
    assert printed.find({"data": "a", "mask": "on"}) == {"mean": "1.20", "low": "0.9", "high": "1.5"}
    assert PrintedContrast(ROWS, {"retrieval": "iid"}).find({"data": "a"}) == {"mean": "0.10"}
    assert printed.find({"data": "b"}) == {}
