"""Figures that a study may ask for are refused when it is declared, and not after its runs were made."""

from __future__ import annotations

import pytest

from reprise.lab import Cell, Column, Study, difference
from reprise.lab.figure_key import AUDIT_KEYS, METRIC_KEYS
from reprise.lab.run_group import METRICS

TRAINED = Cell("a", {"dataset": "glyphs", "learner": "er"})
AUDITED = Cell("a", {"dataset": "cifar10"})


def declare(cell: Cell, key: str, name: str = "mine") -> Study:
    return Study(name, "a table", "about", (cell,), (cell,), ("iid", "rpr"), (Column(key),))


def test_known_figures_are_those_of_records() -> None:
    from reprise.lab import run_all

    [outcome] = run_all([AUDITED.run("rpr", 0)], device="cpu", jobs=1)
    assert {*AUDIT_KEYS} == {*outcome.record["audit"]}
    assert {*METRIC_KEYS} == {*METRICS}


@pytest.mark.parametrize("key", ["p99", "gap_sd", "ema.final", "live.tail", "diagnostics.bias_displacement.1-4.mean"])
def test_a_figure_of_a_run_is_taken(key: str) -> None:
    assert declare(TRAINED, key).columns[0].key == key


@pytest.mark.parametrize(
    ("cell", "key", "said"),
    [
        (TRAINED, "p98", "no run has a figure 'p98': did you mean 'p9"),
        (TRAINED, "ema.finl", "no run has a figure 'ema.finl': did you mean 'ema.final'?"),
        (TRAINED, "accuracy", "no run has a figure 'accuracy': "),
        (AUDITED, "ema.final", "the figure 'ema.final' needs training, and the cells name no learner"),
    ],
)
def test_another_is_refused(cell: Cell, key: str, said: str) -> None:
    with pytest.raises(ValueError) as error:
        declare(cell, key)
    assert str(error.value).startswith(said)


def test_a_contrast_of_an_unknown_figure_is_refused() -> None:
    with pytest.raises(ValueError, match="no run has a figure 'maxx'"):
        Study("mine", "", "", (AUDITED,), (AUDITED,), ("iid", "rpr"), (), (difference("rpr", "iid", key="maxx"),))


@pytest.mark.parametrize("name", ["", "a b", "a/b", "../a", ".a"])
def test_a_name_that_cannot_be_a_file_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="the name of a study is also that of its files"):
        declare(TRAINED, "max", name)
