"""Two sets of runs compared from their records: pairs by seed, what differs, what is doubtful, which is chosen."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from records import PROVENANCE, audit_record, planned, record, run_of

from reprise.core.files import Record
from reprise.lab.comparison import RunComparison, compare_runs, match
from reprise.lab.matching import one
from reprise.lab.statistics import paired

FINALS = {"iid": (0.20, 0.22, 0.21, 0.19), "rpr": (0.25, 0.26, 0.27, 0.22)}


def side(retrieval: str, seeds: int = 4, **more: Any) -> list[Record]:
    return [record(retrieval, seed, FINALS[retrieval][seed], **more) for seed in range(seeds)]


def compared(**more: Any) -> RunComparison:
    return compare_runs(side("rpr"), side("iid"), **more)


def test_difference_is_that_of_the_pairs() -> None:
    found = compared()
    a, b = (dict(enumerate(FINALS[name])) for name in ("rpr", "iid"))
    assert found.contrast() == paired(a, b)
    assert found.means() == pytest.approx((0.25, 0.205))
    assert found.contrast("live") == paired(*({s: v / 2 for s, v in one.items()} for one in (a, b)))
    assert (found.a.name, found.b.name) == ("rpr", "iid")
    assert found.verdict.startswith(
        "Over 4 pairs of runs, final task-mean accuracy of the averaged network is 25.0% under rpr and 20.5% under "
        "iid, +4.5 points apart, with a 95% interval from "
    )
    assert found.verdict.endswith(", which excludes 0: rpr is higher.")


def test_order_of_records_does_not_matter() -> None:
    assert compare_runs(side("rpr")[::-1], side("iid")).to_dict() == compared().to_dict()
    json.dumps(compared().to_dict(), allow_nan=False)


def test_runs_that_differ_in_retrieval_alone_are_beyond_doubt() -> None:
    found = compared()
    assert list(map(str, found.differs)) == ["memory.retrieval: rpr | iid"]
    assert found.doubts == ()


def test_all_that_differs_is_named_and_names_the_sides() -> None:
    first = [record(seed=seed, run=run_of("rpr", seed, descent__lr=0.1)) for seed in range(2)]
    second = [
        record(seed=seed, run=run_of("rpr", seed, learner__name="er", data__validation=True)) for seed in range(2)
    ]
    found = compare_runs(first, second)
    assert set(map(str, found.differs)) == {
        "data.validation: false | true",
        "learner.name: er-ace | er",
        "descent.lr: 0.1 | 0.03",
    }
    assert (found.a.name, found.b.name) == ("er-ace, validation false, lr 0.1", "er, validation true, lr 0.03")


def test_of_many_settings_the_most_telling_name_a_side() -> None:
    other = {"data__validation": True, "stream__batch": 4, "learner__name": "er", "memory__storage": "cbrs"}
    first = [record(seed=seed, run=run_of("rpr", seed)) for seed in range(2)]
    second = [record(seed=seed, run=run_of("iid", seed, **other)) for seed in range(2)]
    found = compare_runs(first, second)
    assert (found.a.name, found.b.name) == ("er-ace, rpr, reservoir", "er, iid, cbrs")
    with pytest.raises(ValueError, match=r"those of the first differ in learner\.name, which is er-ace and er$"):
        compare_runs([first[0], second[1]], second)
    with pytest.raises(ValueError, match=r"differ in learner\.name, which is er-ace and no learner$"):
        compare_runs([first[0], audit_record("rpr")], second)


def test_a_metric_may_name_its_read_out() -> None:
    assert compared(metric="live.final").to_dict() == compared(readout="live").to_dict()
    assert compared(metric="ema.tail", readout="live").to_dict() == compared(metric="tail").to_dict()


@pytest.mark.parametrize("metric", ["audit.max", "prequential.accuracy", "final_loss", "worst_case"])
def test_other_figures_are_compared_too(metric: str) -> None:
    found = compared(metric=metric)
    assert found.contrast() is not None
    assert found.is_metric == (metric == "worst_case")
    assert ("points" in found.verdict) == found.is_metric


def test_audits_are_compared_by_their_figures() -> None:
    audits = [[audit_record(name, seed) for seed in range(3)] for name in ("rpr", "iid")]
    found = compare_runs(*audits, metric="audit.max")
    lengths = {name: np.mean([planned(name, seed)[1].max for seed in range(3)]) for name in ("rpr", "iid")}
    assert found.means() == (lengths["rpr"], lengths["iid"])
    assert found.a.longest <= 9 == found.a.bound
    with pytest.raises(ValueError, match=r"is an audit and trains nothing; name one of its figures, as audit\.max"):
        compare_runs(*audits)


def test_curves_are_those_of_the_records() -> None:
    found = compared().a
    # After task 0: (0.5·10 + 0.1·30) / 40 = 0.2. After task 1: task 0 has (2 + 12) / 40 = 0.35, task 1 0.75.
    np.testing.assert_allclose(found.learning_curves(), [[0.2, 0.55]] * 4)
    steps, losses = found.along("loss")
    assert steps.tolist() == [40, 80, 120]
    np.testing.assert_allclose(losses[:, 1], [2.0, 2.1, 2.2, 2.3])


def test_a_curve_that_ended_early_is_filled_up() -> None:
    short = side("rpr", 2)
    short[1]["evaluations"]["boundary"] = [True, False]
    curves = compare_runs(short, side("iid", 2)).a.learning_curves()
    np.testing.assert_array_equal(curves, [[0.2, 0.55], [0.2, np.nan]])


def test_one_pair_has_no_interval_and_none_nothing() -> None:
    found = compare_runs(side("rpr", 1), side("iid"))
    assert found.contrast() is None
    assert found.verdict == (
        "In the only pair, final task-mean accuracy of the averaged network is 25.0% under rpr and 20.0% under iid, "
        "+5.0 points apart; one pair has no interval."
    )
    found = compare_runs(side("rpr", 1), side("iid")[1:])
    assert found.verdict.startswith("No two runs can be paired")


def doubts_of(rpr: list[Record], iid: list[Record] | None = None) -> tuple[str, ...]:
    return compare_runs(rpr, side("iid") if iid is None else iid).doubts


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (
            {"provenance": PROVENANCE | {"torch": "2.14"}},
            "The runs were made with different versions of torch: 2.14 under rpr, 2.13.0+cpu under iid.",
        ),
        (
            {"provenance": PROVENANCE | {"device": "NVIDIA H200"}},
            "The runs were made with different devices: NVIDIA H200 under rpr, CPU under iid.",
        ),
        (
            {"data": {"train": "3c", "test": "2b" * 16}},
            "The runs had different data: the fingerprint of train is 3c under rpr, 1a1a1a1a under iid.",
        ),
        (
            {"split": "validation"},
            "Some runs were tested on validation images, others on test images: validation under rpr, test under iid.",
        ),
    ],
)
def test_sides_made_in_other_ways_are_doubtful(more: dict[str, Any], sentence: str) -> None:
    assert doubts_of(side("rpr", **more)) == (sentence,)


def test_missing_and_double_seeds_are_named() -> None:
    again = record("rpr", 1, 0.5, data={"train": "1a" * 16, "test": "2b" * 16})
    assert doubts_of(side("rpr", 3)) == ("Seed 3 has no run under rpr.",)
    first = side("rpr")[1]["identity"][:8]
    assert compare_runs([*side("rpr"), again], side("iid")).a.values()[1] == FINALS["rpr"][1]
    assert doubts_of([*side("rpr"), again]) == (f"There are 2 runs of seed 1 under rpr; the first, {first}, is used.",)


def test_a_run_beside_itself_is_named() -> None:
    found = compare_runs(side("rpr"), side("rpr", 2))
    assert found.doubts == ("Seeds 2, 3 have no run under B.", "The runs of seeds 0, 1 are the same under A and B.")
    assert found.differs == ()


def test_other_content_under_equal_settings_is_found() -> None:
    other = side("rpr")
    other[2]["audit"] = other[2]["audit"] | {"class_max": 19}
    assert doubts_of(other) == (
        "For seed 2, stream and storage are set alike under rpr and iid, but the memory did not hold the same classes.",
    )
    lr = [record(seed=seed, run=run_of("rpr", seed, descent__lr=0.1), tape="another") for seed in range(4)]
    assert doubts_of(lr, side("rpr")) == (
        "For seeds 0, 1, 2, 3, stream and memory are set alike under lr 0.1 and lr 0.03, but the tapes differ.",
    )
    for one_side in (scored := [side("rpr"), side("rpr")]):
        for found in one_side:
            found["run"]["memory"]["retrieval"] = "mir:20"  # a model decides
    scored[0][0]["tape"] = "another"
    assert not any("tapes" in sentence for sentence in doubts_of(*scored))


def test_a_side_of_two_settings_is_refused() -> None:
    with pytest.raises(ValueError, match=r"those of the first differ in memory\.retrieval, which is rpr and iid$"):
        compare_runs([*side("rpr"), *side("iid")], side("iid"))
    with pytest.raises(ValueError, match="the second side of the comparison has no run"):
        compare_runs(side("rpr"), [])


def test_an_unknown_metric_or_read_out_is_named() -> None:
    with pytest.raises(ValueError, match="no figure 'finl': did you mean 'final'"):
        compared(metric="finl")
    with pytest.raises(ValueError, match="a read-out is one of ema, live, got 'mean'"):
        compared(readout="mean")


ALL = [*side("rpr"), *side("iid"), audit_record("fixed")]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("retrieval=rpr", 4),
        ("memory.retrieval=rpr, seed=2", 1),
        ("learner=er-ace", 8),
        ("dataset=glyphs,lr=3e-2", 8),
        ("alpha=0.3", 8),
        ("buffer=500", 9),
        ("validation=False", 8),
        ("size=none", 9),  # an audit does not have the setting
        ("lr=none", 1),
        ("learner=none", 1),
        (ALL[3]["identity"][:8], 1),
    ],
)
def test_match(text: str, count: int) -> None:
    assert len(match(ALL, text)) == count


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rpr", "chosen by settings, such as retrieval=rpr,seed=0, or by the first four or more characters"),
        ("abc", "chosen by settings"),
        ("retrieval=rpr,seed", "by name=value, several separated by commas, got 'retrieval=rpr,seed'"),
        ("retreival=rpr", "no run here has a setting 'retreival': did you mean 'retrieval'"),
        ("name=rpr", "'name' may be data.name or learner.name or network.name"),
        ("retrieval=cycle", r"none of the 9 runs here is 'retrieval=cycle': memory\.retrieval is rpr, iid, fixed$"),
        ("retrieval=rpr,seed=7", r"seed of those chosen so far is 0, 1, 2, 3$"),
        ("ffff", "none of the 9 runs here has an identity that begins with 'ffff'"),
    ],
)
def test_what_cannot_be_matched_is_a_sentence(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        match(ALL, text)


def test_one_record_must_be_the_only_one() -> None:
    assert one(ALL, "retrieval=fixed")["identity"] == ALL[-1]["identity"]
    with pytest.raises(ValueError, match="none of the 9 runs here is 'retrieval=cycle'"):
        one(ALL, "retrieval=cycle")
    with pytest.raises(ValueError, match="4 runs are 'retrieval=rpr', name one of them: "):
        one(ALL, "retrieval=rpr")


def test_a_policy_of_somebody_else_s_has_no_bound_here() -> None:
    theirs = side("rpr")
    for found in theirs:
        found["run"]["memory"]["retrieval"] = "eldest:2"
    assert compare_runs(theirs, side("iid")).a.bound is None
