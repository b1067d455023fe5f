"""The studies: what they declare, what of the paper they fill, and what those without training find at full size."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprise.audit import KEYS
from reprise.execute import Here, Processes
from reprise.lab import Study, StudyPlan
from reprise.lab.outcome import outcome
from reprise.memory import as_retrieval
from reprise.runs import Store
from reprise.runs.plan import make_stream
from reprise.studies import STUDIES, find_study, load_study
from reprise.studies.paper import table
from reprise.studies.seams import STREAMS

# By study: figures of its table that the paper prints, and contrasts.
PRINTED = {
    "gaps": (52, 0),
    "dyngaps": (63, 0),
    "renewal-gaps": (32, 0),
    "buffer-gaps": (25, 0),
    "coverage": (6, 0),
    "seams": (48, 44),
    "groups": (0, 15),
    "readout": (0, 12),
    "mask": (0, 6),
    "gap-drift": (19, 0),
    "renewal": (32, 8),
    "buffer": (35, 5),
    "law": (0, 14),
    "hosts": (0, 5),
    "dissociation": (2, 6),
    "cifar10-control": (0, 0),
    "hybrid-validation": (0, 0),
    "gap-opportunity": (12, 24),
    "trajectory": (0, 8),
}
OURS = (
    *("isolation", "example-pass", "boundaries", "rare-classes", "agreement"),
    *("pretrained-rates", "pretrained-gaps", "pretrained-again", "demo"),
)
AUDITS = ("gaps", "dyngaps", "renewal-gaps", "buffer-gaps", "coverage")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "out")


def test_names() -> None:
    assert list(STUDIES) == [*PRINTED, *OURS]
    assert [name for name, study in STUDIES.items() if not study.trains] == list(AUDITS)
    assert all(name == study.name for name, study in STUDIES.items())
    with pytest.raises(ValueError, match=r"unknown study 'renewals': did you mean 'renewal'\?"):
        find_study("renewals")


@pytest.mark.parametrize("name", PRINTED)
def test_what_the_paper_prints_is_found(name: str) -> None:
    study = STUDIES[name]
    printed = [
        column.paper.find(cell.facts, arm)
        for cell in study.cells
        for arm in study.arms
        for column in study.columns
        if column.paper is not None and column.holds(arm)
    ]
    contrasts = [one for one in study.form_contrasts(small=False) if "mean" in one.paper]
    assert (sum(figure is not None for figure in printed), len(contrasts)) == PRINTED[name]
    for figure in [figure for figure in printed if figure is not None]:
        float(figure)


@pytest.mark.parametrize(
    "name", ["seams", "dyngaps", "gaps", "mask_interaction", "law", "trajectory", "gap_opportunity"]
)
def test_every_row_of_a_table_stands_in_a_study(name: str) -> None:
    """As many figures as the table has rows, or rows times columns: nothing printed is left out."""
    counted = {
        "seams": PRINTED["seams"][0] / 3 * 2,  # what it prints of BRS stands beside two rules
        "dyngaps": PRINTED["dyngaps"][0] / 7,
        "gaps": (PRINTED["gaps"][0] + 4 * 2) / 5,  # two of twelve maxima a setting stand beside the theory
        "mask_interaction": PRINTED["mask"][1],
        "law": PRINTED["law"][1] - 2,  # and the mask's own effect
        "trajectory": PRINTED["trajectory"][1],
        "gap_opportunity": PRINTED["gap-opportunity"][0],
    }
    assert counted[name] == len(table(name))


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.parametrize("small", [False, True])
def test_arms_and_figures_exist(name: str, small: bool) -> None:
    study = STUDIES[name]
    for arm in study.form_arms(small=small):
        assert as_retrieval(arm).spec == arm
    named = {column.key for column in study.columns if "." not in column.key}
    assert named <= {*KEYS, "distinct_per_batch"}
    assert study.trains or len(named) == len(study.columns)
    assert len(study.runs(2, small=small)) == study.count(2, small=small)
    assert study.form_contrasts(small=small) or not study.contrasts


@pytest.mark.parametrize("name", STUDIES)
def test_the_small_form_is_of_glyphs_and_of_the_same_kind(name: str) -> None:
    study = STUDIES[name]
    for cell in study.small:
        run = cell.run(study.form_arms(small=True)[0], 0)
        assert run.data is None or run.data.name == "glyphs"
        assert run.trains == study.trains


def test_studies_share_runs() -> None:
    for small, least in ((False, 1.2), (True, 1.2)):
        plans = [StudyPlan.of(study, small=small, seeds=1, error_seeds=2) for study in STUDIES.values() if study.trains]
        asked = [run for plan in plans for run in plan.runs]
        assert len(asked) / len({*asked}) > least
    mask, drift, renewal = (set(STUDIES[name].runs(1)) for name in ("mask", "gap-drift", "renewal"))
    assert drift < mask
    assert len(mask & renewal) == 4
    assert set(STUDIES["trajectory"].runs(1)) < set(STUDIES["gap-opportunity"].runs(1))
    lite, vit = (set(STUDIES[name].runs(1, small=True)) for name in ("pretrained-gaps", "gap-opportunity"))
    assert lite == vit
    again, gaps = (set(STUDIES[name].runs(5)) for name in ("pretrained-again", "pretrained-gaps"))
    assert again < gaps
    assert len(again) == 5 * 4 * 2
    primary = {run for run in STUDIES["readout"].runs(1) if run.memory.buffer == 5120}
    assert primary < set(STUDIES["seams"].runs(1))


def test_a_pair_differs_in_retrieval_alone() -> None:
    for study in STUDIES.values():
        for cell in study.cells:
            first, *others = (cell.run(arm, 3) for arm in study.arms)
            for arm, other in zip(study.arms[1:], others, strict=True):
                assert first.replace(retrieval=arm) == other


def test_only_studies_that_choose_look_at_validation_images() -> None:
    assert [name for name, study in STUDIES.items() if study.split == "validation"] == [
        "hybrid-validation",
        "pretrained-rates",
    ]


RULES = ("reservoir", "brs-always", "brs")


def test_the_paper_s_brs_stands_beside_both_rules() -> None:
    study = STUDIES["seams"]
    assert [cell.name for cell in study.cells] == [f"{'-'.join(one)} {rule}" for one in STREAMS for rule in RULES]
    assert all(cell.run("rpr", 0).memory.storage == cell.facts["storage"] for cell in study.cells)
    (column,) = study.columns
    assert column.paper is not None
    for reservoir, always, published in zip(*[iter(study.cells)] * 3, strict=True):
        figures, others, plain = (
            [column.paper.find(cell.facts, arm) for arm in study.arms] for cell in (always, published, reservoir)
        )
        assert figures == others != plain
        assert figures == [row["acc_mean"] for row in table("seams") if published.facts.items() <= row.items()]
    contrasts = {(one.name, one.label): one.paper for one in study.form_contrasts(small=False)}
    of_always = {
        tuple(word.replace("brs-always", "brs") for word in key): key for key in contrasts if "always" in str(key)
    }
    assert len(of_always) == 4 * len(STREAMS)
    assert all(contrasts[published] == contrasts[always] for published, always in of_always.items())


def test_families_are_those_of_the_paper() -> None:
    tested = [one for one in STUDIES["seams"].form_contrasts(small=False) if one.family]
    families = {one.family for one in tested}
    assert families == {f"rpr − {arm}, {storage}" for arm in ("iid", "fixed") for storage in RULES}
    assert all(sum(one.family == family for one in tested) == 4 for family in families)
    (first,) = [one for one in tested if one.label == "cifar100-lt10 reservoir" and one.name == "rpr − iid"]
    assert first.paper == {
        "mean": "1.400", "low": "1.06", "high": "1.74", "relative": "12.5", "sd": "0.476", "t": "9.294",
        "p": "6.56e-6", "holm": "1.97e-5", "positive": "10",
    }  # fmt: skip


def test_boundaries_are_those_of_the_primary_runs() -> None:
    study, seams = STUDIES["boundaries"], STUDIES["seams"]
    for small in (True, False):
        assert study.runs(3, small=small) == seams.runs(3, small=small)
    contrasts = study.form_contrasts(small=False)
    assert len(contrasts) == 4 * len(seams.cells)
    assert {(one.key, one.main) for one in contrasts} == {("ema.boundary_mean", True), ("live.boundary_mean", False)}
    assert not any(one.paper for one in contrasts)


@pytest.mark.parametrize("small", [False, True])
def test_every_cell_of_hosts_is_counted(small: bool) -> None:
    study = find_study("hosts")
    counted = [one.label for one in study.form_contrasts(small=small) if one.main]
    assert sorted(counted) == sorted(cell.name for cell in study.form_cells(small=small))


def test_which_classes_are_rare() -> None:
    study, seams = STUDIES["rare-classes"], STUDIES["seams"]
    varied, *fixed = study.cells
    assert set(study.runs(2)) & set(seams.runs(2)) == {varied.run(arm, seed) for arm in study.arms for seed in (0, 1)}
    for cell, seed in zip(fixed, (101, 102, 103), strict=True):
        assert cell.run("iid", 3) == varied.run("iid", 3).replace(imbalance_seed=seed)
    counts = [[make_stream(cell.run("iid", seed)).counts.tolist() for seed in (0, 1)] for cell in study.cells]
    assert [one == other for one, other in counts] == [False, True, True, True]
    assert len({str(one) for pair in counts for one in pair}) == 5
    # The paper's figures of this stream and storage stand beside all cells.
    (like,) = (cell for cell in seams.cells if cell.name == "cifar100-lt10 reservoir")
    ours, theirs = study.columns[0].paper, seams.columns[0].paper
    assert ours is not None
    assert theirs is not None
    for cell in study.cells:
        assert [ours.find(cell.facts, arm) for arm in study.arms] == [
            theirs.find(like.facts, arm) for arm in study.arms
        ]
    contrasts = study.form_contrasts(small=False)
    assert [(one.name, one.paper.get("mean")) for one in contrasts] == [("rpr − iid", "1.40")] * 4 + [
        ("rpr − fixed", "0.59")
    ] * 4


def test_theory_beside_the_static_table() -> None:
    study = STUDIES["gaps"]
    scale, ratio = study.beside[1], study.beside[2]
    assert [round(scale.theory(setting)) for setting in study.cells] == [121, 30, 247, 66]
    assert [round(ratio.theory(setting), 2) for setting in study.cells] == [2.42, 2.43, 2.40, 2.44]
    assert ratio.paper is not None
    assert [ratio.paper.find(cell.facts) for cell in study.cells] == ["2.41", "2.42", "2.38", "2.43"]
    bound = study.columns[-1].bound
    assert bound is not None
    assert [bound(setting) for setting in study.cells] == [25, 7, 49, 13]
    # Uniform retrieval leaves classes out a little more often than a balanced draw, so it waits a little longer.
    for setting in study.cells:
        assert 1 < study.beside[0].theory(setting) / scale.theory(setting) < 1.25


@pytest.mark.parametrize("name", AUDITS)
def test_small_form_runs(name: str, store: Store) -> None:
    plan = StudyPlan.of(STUDIES[name], seeds=1, error_seeds=2, small=True)
    found = outcome(plan, plan.execute(store, Here()))
    assert found.judged == []
    assert "not comparable with the paper, so nothing is judged" in found.verdict
    for figure in found.figures:
        assert figure.paper is None
        if figure.key == "violations" and figure.arm != "iid":
            assert figure.highest == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", AUDITS)
def test_every_figure_agrees(name: str, store: Store) -> None:
    plan = StudyPlan.of(STUDIES[name])
    found = outcome(plan, plan.execute(store, Processes(2)))
    assert f"{PRINTED[name][0]} of {PRINTED[name][0]} figures agree with the paper's." in found.verdict
    assert found.doubts == ()


@pytest.mark.slow
def test_arms_of_the_buffer_study_hold_the_same_memory(store: Store) -> None:
    plan = StudyPlan(STUDIES["buffer-gaps"], seeds=2, error_seeds=4)
    runs = plan.execute(store, Processes(2))
    for cell in runs.cells:
        assert runs.values(cell.name, "iid", "deactivations") == runs.values(cell.name, "rpr", "deactivations")


OWN = """
from reprise.lab import Cell, Column, Study, difference

STUDY = Study(
    name="mine",
    table="a study of my own",
    about="Two arms.",
    cells=(Cell("C=6", {"classes": 6, "steps": 30, "replay": 2}),),
    small=(Cell("C=4", {"classes": 4, "steps": 20, "replay": 2}),),
    arms=("iid", "rpr"),
    columns=(Column("max"),),
    contrasts=(difference("rpr", "iid", key="max", main=True),),
)
"""


def test_a_study_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(OWN)
    study = load_study(str(path))
    assert isinstance(study, Study)
    assert (study.name, len(study.runs(2))) == ("mine", 4)
    assert load_study("gaps") is STUDIES["gaps"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "declares no study: it must set STUDY to a reprise.lab.Study"),
        (OWN.replace("mine", "gaps"), "calls its study 'gaps', as one of this library is called"),
        (OWN.replace('difference("rpr"', 'difference("rprr"'), "names an arm 'rprr' that the study does not have"),
        ("import nothing_of_this_name", "cannot be imported: ModuleNotFoundError"),
    ],
)
def test_a_file_that_declares_none_is_a_sentence(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "other.py"
    path.write_text(text)
    with pytest.raises(ValueError, match=said):
        load_study(str(path))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no file .*none\.py"):
        load_study(str(tmp_path / "none.py"))
