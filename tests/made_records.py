"""Records of whole studies that nobody trained: real audits, and accuracies drawn around the paper's.

A record has all that pages and tables read. Audits are made once for each cell and arm and then cloned, so hundreds of
runs take seconds.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from reprise.core.files import Record, digest
from reprise.core.record_file import seal
from reprise.execute.one import audit
from reprise.lab.campaign_file import CampaignFile
from reprise.lab.doubts import STORED
from reprise.lab.outcome import StudyOutcome, outcome
from reprise.lab.run_group import METRICS
from reprise.lab.study import Cell, Key, Study
from reprise.lab.study_plan import StudyPlan
from reprise.lab.study_runs import study_runs
from reprise.runs import Run, Store
from reprise.runs.diagnostics import BINS
from reprise.runs.record import FORMAT

MADE_BY = {"torch": "2.13.0", "device": "NVIDIA H200", "instructions": "AVX512", "threads": 1, "processes": 1}
COMMAND = ("reprise", "study", "run", "--out", "out")
BEGAN = "2026-01-02T03:04:05+00:00"


def made_outcome(study: Study, seeds: int = 3, *, small: bool = False, without: int = 0) -> StudyOutcome:
    """What came out of such a study; the last `without` runs are missing."""
    plan = StudyPlan(study, seeds, seeds if study.trains else max(seeds, 2), small)
    records = made_records(plan)
    kept = dict(list(records.items())[: len(records) - without])
    return outcome(plan, study_runs(study, small, plan.all_seeds, kept))


def campaign_file(plan: StudyPlan, records: dict[Key, Record] | None = None) -> CampaignFile:
    """The file that a campaign of this plan would have."""
    known = {} if records is None else {key: record["identity"] for key, record in records.items()}
    runs = tuple((key, known.get(key, "")) for key in plan.keys)
    form = (plan.name, plan.study.name, plan.small, plan.seeds, plan.error_seeds)
    return CampaignFile(*form, runs, command=(*COMMAND[:3], plan.study.name, *COMMAND[3:]), began=BEGAN)


def put_study(plan: StudyPlan, store: Store, *, without: int = 0) -> None:
    """Put the records of a study and its campaign file into a store; the last `without` records are left out."""
    records = made_records(plan)
    for record in list(records.values())[: len(records) - without]:
        store.put(seal({**record, "format": FORMAT}))
    campaign_file(plan, records).write(store)


def many_records(plan: StudyPlan, made: StudyPlan) -> dict[Key, Record]:
    """Records of a study with many seeds: those of a plan with few, again and again under other seeds.

    Where `made` has one cell alone, all cells have its runs.
    """
    few, cells = made_records(made), {cell.name for cell in made.study.form_cells(small=made.small)}
    found: dict[Key, Record] = {}
    for cell, arm, seed in plan.keys:
        like = few[cell if cell in cells else next(iter(cells)), arm, seed % made.seeds]
        run = {**like["run"], "seed": seed}
        found[cell, arm, seed] = {**like, "run": run, "identity": digest([cell, arm, seed])[:24]}
    return found


def made_records(plan: StudyPlan) -> dict[Key, Record]:
    """A record for every run of a study, without a checksum."""
    study, small = plan.study, plan.small
    cells = {cell.name: (place, cell) for place, cell in enumerate(study.form_cells(small=small))}
    arms = {arm: place for place, arm in enumerate(study.form_arms(small=small))}
    first = {(name, arm): _first(study, cell, arm) for name, (_, cell) in cells.items() for arm in arms}
    found: dict[Key, Record] = {}
    for cell, arm, seed in plan.keys:
        rng = np.random.default_rng([cells[cell][0], arms[arm], seed])
        shared = np.random.default_rng([cells[cell][0], 99, seed]).normal(0, 0.5)
        found[cell, arm, seed] = _of_seed(first[cell, arm], seed, float(shared), rng)
    return found


def _of_seed(first: Record, seed: int, shared: float, rng: np.random.Generator) -> Record:
    run = {**first["run"], "seed": seed}
    record = {**first, "run": run, "identity": digest([run, first["data"]])[:24]}
    record["name"] = f"{first['name'].rpartition(', seed')[0]}, seed {seed}"
    if seed:
        record["tape"] = digest([first["tape"], seed])
        record["audit"] = {name: _moved(name, value, rng) for name, value in first["audit"].items()}
    if "metrics" in first:
        _train(record, shared, rng)
    return record


def _moved(name: str, value: Any, rng: np.random.Generator) -> Any:
    """Another seed's figure; what was stored stays, for arms share it."""
    stays = name in STORED or not isinstance(value, float) or not value
    return value if stays else value * (1 + 0.01 * float(rng.normal()))


def _train(record: Record, shared: float, rng: np.random.Generator) -> None:
    level = record["metrics"]["ema"]["final"]
    tasks = np.array(record["stream"]["task_of_class"])
    number = int(tasks.max()) + 1
    final = max(0.01, level + 0.01 * (shared + float(rng.normal(0, 0.35))))
    rows = [
        [round(float(v), 4) if task <= row else None for v, task in zip(values, tasks, strict=True)]
        for row, values in enumerate(_accuracies(final, number, len(tasks), rng))
    ]
    ema = {name: round(final * (1 + 0.1 * place), 6) for place, name in enumerate(METRICS)} | {"final": final}
    live = {name: 0.9 * value for name, value in ema.items()}
    steps, boundaries = record["stream"]["steps"], record["stream"]["boundaries"]
    ends = np.unique(np.linspace(1, steps, min(steps, 200)).astype(int))
    record |= {
        "metrics": {"ema": ema, "live": live},
        "prequential": {"accuracy": final / 2, "by_task": [final / 2] * number},
        "evaluations": {
            "steps": boundaries,
            "boundary": [True] * number,
            "test_counts": [50] * len(tasks),
            "accuracies": {"ema": rows, "live": rows},
        },
        "curves": {
            "steps": ends.tolist(),
            "loss": (4 * np.exp(-2 * ends / steps)).round(4).tolist(),
            "accuracy": (final * ends / steps).round(4).tolist(),
        },
        "diagnostics": {
            "bias_displacement": {
                name: {"episodes": 100, "mean": -0.01 * (1 + place), "negative": 0.5 + 0.1 * place}
                for place, name in enumerate(BINS)
            }
        },
        "final_loss": 0.54,
        "timings": {"prepare": 0.2, "train": round(30 + float(rng.uniform(0, 5)), 3), "steps": steps},
    }


def _accuracies(final: float, tasks: int, classes: int, rng: np.random.Generator) -> Any:
    """Tasks × classes: high at first, then falling towards the final accuracy."""
    level = final * (1 + 1.2 * (1 - np.arange(1, tasks + 1) / tasks))
    return np.clip(level[:, None] * (1 + 0.1 * rng.normal(size=(tasks, classes))), 0, 1)


def _first(study: Study, cell: Cell, arm: str) -> Record:
    """The record of seed 0, whose audit is real."""
    run = cell.run(arm, 0)
    record = _audited(_audit_of(run))
    if not run.trains:
        return dict(record)
    level = 20.0 + 3 * study.arms.index(arm) if arm in study.arms else 20.0
    for column in study.columns:
        if column.key == "ema.final" and column.paper is not None and (found := column.paper.find(cell.facts, arm)):
            level = float(found)
    return {
        **record,
        "name": run.name,
        "run": run.to_dict(),
        "split": "validation" if run.data is not None and run.data.validation else "test",
        "metrics": {"ema": {"final": level / 100}},
        "provenance": {**record["provenance"], **MADE_BY},
    }


def _audit_of(run: Run) -> Run:
    """Much the same stream and memory without a learner; a retrieval that asks a network is taken as uniform."""
    retrieval = "uniform" if run.memory.retrieval.startswith("mir") else run.memory.retrieval
    settings: dict[str, Any] = {"learner": None, "retrieval": retrieval, "seed": run.seed}
    for section, names in (
        (run.stream, ("imbalance", "imbalance_seed", "batch", "tasks", "order", "disjoint", "blur")),
        (run.stream, ("classes", "steps")),
        (run.memory, ("storage", "buffer", "replay")),
    ):
        settings |= {name: getattr(section, name) for name in names if hasattr(section, name)}
    if run.data is not None:
        settings["dataset"] = {"imagenet-r": "tinyimagenet"}.get(run.data.name, run.data.name)  # of 200 classes, too
    return Run.of(**{name: value for name, value in settings.items() if value is not None or name == "learner"})


@cache
def _audited(run: Run) -> Record:
    return {name: value for name, value in audit(run).items() if name != "checksum"}
