"""The records that are shipped: what is made of them is what lies beside them, and the pages say what they say."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from reprise.cli import main
from reprise.lab import StudyPlan
from reprise.lab.campaign_file import campaign_files, read_campaign
from reprise.lab.figure import Figure
from reprise.lab.outcome import StudyOutcome, outcome
from reprise.lab.verify import verify_tapes
from reprise.runs.record import BULKY
from reprise.runs.store import Store
from reprise.studies import find_study

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results"
MISSING = {"hosts": 20, "dissociation": 3}
"""Runs that are still to be made."""
OF_WAITS = ("p99", "max", "deactivations", "pair_coverage", "pair_entropy")
"""Figures that studies of training share with those of waits."""
NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:e[-+]?\d+)?)")
STREAMS = {
    "cifar100-balanced": "CIFAR-100",
    "cifar100-lt10": "CIFAR-100, long tail of 10",
    "cifar100-lt100": "CIFAR-100, long tail of 100",
    "tinyimagenet-lt10": "Tiny-ImageNet, long tail of 10",
}


def test_reports_made_again_are_those_that_lie_there(tmp_path, capsys):
    again = tmp_path / "results"
    for part in ("packed", "campaigns"):
        shutil.copytree(RESULTS / part, again / part)
    assert main(["study", "report", "all", "--partial", "--out", str(again), "--formats", "html,md,json"]) == 0
    said = capsys.readouterr().out
    assert "figures agree with the paper's." in said
    made = {path.name: path.read_text(encoding="utf-8") for path in (again / "reports").iterdir()}
    shipped = [path for path in (RESULTS / "reports").iterdir() if path.suffix in (".html", ".md", ".json")]
    kept = {path.name: path.read_text(encoding="utf-8") for path in shipped}
    assert made.keys() == kept.keys()
    assert [name for name in kept if not alike(made[name], kept[name])] == []


def alike(one: str, other: str) -> bool:
    """Whether two files say the same: numbers but for rounding, which differs from processor to processor."""
    left, right = (NUMBER.split(text) for text in (one, other))
    if left[::2] != right[::2]:
        return False
    return all(
        abs(float(a) - float(b)) <= max(1e-6 * abs(float(b)), 1.01 * unit(b))
        for a, b in zip(left[1::2], right[1::2], strict=True)
        if a != b
    )


def unit(number: str) -> float:
    """One in the last digit after the point; whole numbers are exact."""
    digits = number.partition("e")[0].partition(".")[2]
    return 10.0 ** -len(digits) if digits else 0.0


def test_files_that_differ_are_told_apart():
    assert alike("x 1.0000000001 y", "x 1.0000000002 y")
    assert alike("x 1.25 y", "x 1.26 y")
    assert not alike("x 1.25 y", "x 1.28 y")
    assert not alike("x 12 y", "x 13 y")
    assert not alike("x 1.0 y", "x 1.0 z")


def test_every_record_is_whole_and_each_run_is_there_once():
    said: list[str] = []
    store = Store(RESULTS)
    records = store.all_records(said.append)
    assert said == []
    assert len({record["identity"] for record in records}) == len(records) == len(store.ended())
    known, missing = {record["identity"] for record in records}, {}
    for path in campaign_files(store):
        campaign = read_campaign(path)
        assert campaign is not None
        assert all(identity for _, identity in campaign.runs)
        missing[path.stem] = len({identity for _, identity in campaign.runs} - known)
    assert {name: count for name, count in missing.items() if count} == MISSING
    asked = {identity for path in campaign_files(store) for _, identity in read_campaign(path).runs}  # type: ignore[union-attr]
    assert known == known & asked


def test_the_results_stay_small():
    assert sum(path.stat().st_size for path in RESULTS.rglob("*") if path.is_file()) < 30e6


def test_tapes_planned_again_are_those_that_were_trained_on():
    """Of every cell and arm of the primary table, one seed; `reprise study verify seams --out results` takes all."""
    store = Store(RESULTS)
    campaign = read_campaign(RESULTS / "campaigns" / "seams.json")
    assert campaign is not None
    chosen = [identity for place, (key, identity) in enumerate(campaign.runs) if key[2] == place % 16][:48]
    records = [store.get(identity, without=BULKY) for identity in chosen]
    checks = list(verify_tapes([record for record in records if record is not None]))
    assert len(checks) == len(chosen) > 40
    assert [check.name for check in checks if not check.same] == []


@pytest.fixture(scope="module")
def outcomes() -> dict[str, StudyOutcome]:
    store = Store(RESULTS)
    loaded = [StudyPlan.of(find_study(path.stem)).load(store, partial=True) for path in campaign_files(store)]
    return {one.plan.name: outcome(one.plan, one.runs) for one in loaded}


def test_the_table_of_the_readme(outcomes):
    found, page = outcomes["seams"], (ROOT / "README.md").read_text(encoding="utf-8")
    for cell, name in STREAMS.items():
        arms = {one.arm: one.ours for one in found.figures if one.cell == f"{cell} reservoir"}
        one = next(one for one in found.contrasts if one.contrast.label == f"{cell} reservoir")
        assert one.contrast.name == "rpr − iid"
        mine, paper = one.found, one.contrast.paper
        assert mine is not None
        gain, theirs = (
            f"{mean:+.2f} ({low:+.2f} to {high:+.2f})"
            for mean, low, high in (
                (mine.mean, mine.low, mine.high),
                [float(paper[name]) for name in ("mean", "low", "high")],
            )
        )
        assert f"| {name} | {arms['iid']:.2f} | {arms['rpr']:.2f} | {gain} | {theirs} | {mine.n} |" in page


def test_the_counts_of_the_readme(outcomes):
    """Figures of the paper that agree; those that meet a printed figure for a second time are left out."""
    audits, training, spreads = [], {}, []
    for name, study in outcomes.items():
        if name in ("rare-classes", "coverage"):
            continue
        if not study.plan.study.trains:
            audits += study.judged
            continue
        for one in (*study.figures, *study.contrasts):
            key: object = one
            if isinstance(one, Figure):
                cells = [one.cell]
            else:  # the paper prints some in several tables
                cells, paper = [term.cell for term in one.contrast.terms], one.contrast.paper
                key = (cells[0].partition("-")[0], paper["low"], paper["high"]) if "low" in paper else one
            if one.within is None or (isinstance(one, Figure) and one.key in OF_WAITS):
                continue
            if not any(cell.endswith(" brs") for cell in cells):
                training.setdefault(key, one)
        spreads += [one for one in study.spreads if not one.cell.endswith(" brs")]
    counts = [(sum(bool(one.within) for one in some), len(some)) for some in (audits, training.values(), spreads)]
    (waits, all_waits), (trained, all_trained), (agree, all_spreads) = counts
    page = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"{waits} of {all_waits} figures of waits and {trained} of {all_trained} of training agree" in page
    assert agree == all_spreads
    assert f"so do all {all_spreads} standard deviations" in page
    findings = " ".join((ROOT / "docs" / "findings.md").read_text(encoding="utf-8").split())
    told = f"all {waits} of waits agree with the paper's, {trained} of {all_trained} of training, and all {all_spreads}"
    assert told in findings
