"""A study's result as text and as plain objects: Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from reprise.audit import KEYS
from reprise.core.files import Record
from reprise.lab.study import Cell, figure_of
from reprise.lab.study_plan import StudyPlan
from reprise.report.summary import stream_label
from reprise.runs.run import Run
from reprise.studies.compare import LIMIT, Comparison, Figure, rules

HEADS = {
    "wall_max": "wall max",
    "pair_coverage": "coverage",
    "pair_entropy": "entropy",
    "gap_sd": "sd of gaps",
    "ema.final": "accuracy, %",
    "live.final": "of the live network",
}
NOTHING = "–"
ROUNDING = "r"  # follows a difference that only the paper's rounding explains


def head(key: str) -> str:
    """A figure's name as a table shows it."""
    return HEADS.get(key, key.removeprefix("diagnostics.").replace("_", " "))


def ours(figure: Figure) -> str:
    """Our figure, one digit finer than the paper's."""
    return f"{figure.ours:.{figure.digits}f}"


def difference(figure: Figure) -> str:
    """The difference in standard errors, with a mark where rounding explains it or where nothing does."""
    if figure.paper is None:
        return ""
    if figure.difference is None:
        return NOTHING if figure.within else "outside"
    text = f"{figure.difference:+.1f}".replace("-", "−").replace("−0.0", "0.0").replace("+0.0", "0.0")
    if figure.within is False:
        return f"{text} outside"
    return f"{text} {ROUNDING}" if abs(figure.difference) > LIMIT and figure.within else text


def about(campaign: StudyPlan) -> str:
    """What the study runs; of the small form, that it is another one."""
    if not campaign.small:
        return campaign.study.about
    names = "; ".join(cell.name for cell in campaign.study.small)
    return f"In full: {campaign.study.about} The small form, shown here, runs {names} instead."


def legend(comparison: Comparison) -> list[str]:
    """How the table is read, in sentences."""
    said = rules(comparison.campaign)
    if any(difference(figure).endswith(f" {ROUNDING}") for figure in comparison.judged):
        said.append(
            f"{ROUNDING} after a difference: more than {LIMIT} standard errors, because runs differ less than the "
            "paper's last digit shows; its rounding allows it."
        )
    return [*said, *([] if comparison.campaign.small else comparison.campaign.study.notes)]


def commands(campaign: StudyPlan) -> list[str]:
    """The commands that make the result anew."""
    name = campaign.study.name + (" --small" if campaign.small else "")
    usual = StudyPlan.of(campaign.study, small=campaign.small)
    seeds = "" if campaign.seeds == usual.seeds else f" --seeds {campaign.seeds}"
    seeds += "" if campaign.error_seeds == usual.error_seeds else f" --error-seeds {campaign.error_seeds}"
    return [f"reprise study run {name}{seeds} --out out", f"reprise study report {name} --out out"]


def rows(comparison: Comparison) -> Iterator[tuple[str, str, dict[str, Figure]]]:
    """Cell, arm and figures by key, in the order of the study."""
    found: dict[tuple[str, str], dict[str, Figure]] = {}
    for figure in comparison.figures:
        found.setdefault((figure.setting, figure.arm), {})[figure.key] = figure
    for (setting, arm), figures in found.items():
        yield setting, arm, figures


def markdown(comparison: Comparison) -> str:
    """The result as Markdown, opening with the commands that make it."""
    campaign, study = comparison.campaign, comparison.campaign.study
    keys = [column.key for column in study.columns]
    second = "sd" if campaign.small else "the paper's"
    third = "" if campaign.small else ", difference in standard errors"
    lines = [f"# Study `{study.name}`", "", "```", *commands(campaign), "```", ""]
    lines += [f"Fills {study.table}. {about(comparison.campaign)}", "", f"**{comparison.verdict}.**", ""]
    lines += [f"Each cell: ours ({second}){third}.", ""]
    lines += _md_row(["setting", "retrieval", *map(head, keys)])
    lines += _md_row(["---", "---", *["---:"] * len(keys)])
    for setting, arm, figures in rows(comparison):
        lines += _md_row([setting, arm, *(_md_cell(figures.get(key), small=campaign.small) for key in keys)])
    if comparison.beside:
        lines += ["", f"Beside the theory, not judged (range over {runs_in_all(campaign)} runs):", ""]
        lines += _md_row(["setting", "retrieval", "figure", "ours", "range", "the paper's", "theory", ""])
        lines += _md_row(["---", "---", "---", "---:", "---:", "---:", "---:", "---"])
        lines += [line for figure in comparison.beside for line in _md_row(beside_row(figure))]
    lines += ["", *(f"- {sentence}" for sentence in legend(comparison))]
    return "\n".join([*lines, "", f"Made by Reprise {', '.join(comparison.versions)}.", ""])


def runs_in_all(campaign: StudyPlan) -> int:
    """How many seeds every setting and arm was run with."""
    return max(campaign.seeds, campaign.error_seeds)


def _md_row(cells: Sequence[str]) -> list[str]:
    return ["| " + " | ".join(cells) + " |"]


def _md_cell(figure: Figure | None, *, small: bool) -> str:
    if figure is None:
        return ""
    if small:
        return f"{ours(figure)} ({figure.sd:.2g})"
    if figure.paper is None:
        return ours(figure)
    cell = f"{ours(figure)} ({figure.paper}) {difference(figure)}"
    return f"**{cell}**" if figure.within is False else cell


def beside_row(figure: Figure) -> list[str]:
    """The cells of a row beside the theory."""
    digits = 0 if figure.key == "max" else 3
    return [
        figure.setting,
        figure.arm,
        head(figure.key),
        ours(figure),
        f"{figure.lowest:.{digits}f} to {figure.highest:.{digits}f}",
        figure.paper or NOTHING,
        f"{figure.theory:.{figure.digits}f}",
        figure.theory_name,
    ]


CSV_HEAD = [
    "study",
    "setting",
    "retrieval",
    "figure",
    "ours",
    "sd",
    "lowest",
    "highest",
    "paper",
    "standard_error",
    "difference",
    "rule",
    "within",
    "theory",
    "theory_name",
]


def csv_table(comparison: Comparison) -> str:
    """The result as CSV, a line per figure."""
    text = io.StringIO()
    writer = csv.DictWriter(text, CSV_HEAD, lineterminator="\n")
    writer.writeheader()
    for figure in (*comparison.figures, *comparison.beside):
        writer.writerow({"study": comparison.campaign.study.name, **_plain(figure)})
    return text.getvalue()


def _plain(figure: Figure) -> dict[str, Any]:
    return {
        "setting": figure.setting,
        "retrieval": figure.arm,
        "figure": figure.key,
        "ours": figure.ours,
        "sd": figure.sd,
        "lowest": figure.lowest,
        "highest": figure.highest,
        "paper": figure.paper,
        "standard_error": figure.error,
        "difference": figure.difference,
        "rule": figure.rule or ("beside theory" if figure.theory is not None else "not compared"),
        "within": figure.within,
        "theory": figure.theory,
        "theory_name": figure.theory_name or None,
    }


def as_json(comparison: Comparison, records: Sequence[Record]) -> list[dict[str, Any]]:
    """The result as plain objects, one per setting and arm, with the mean figures, each seed's, and the comparison."""
    campaign = comparison.campaign
    by_run = dict(zip(campaign.runs, records, strict=True))
    settings = campaign.study.small if campaign.small else campaign.study.cells
    compared = [*comparison.figures, *comparison.beside]
    return [
        _object(
            campaign, setting, arm, by_run, [one for one in compared if (one.setting, one.arm) == (setting.name, arm)]
        )
        for setting in settings
        for arm in dict.fromkeys([*campaign.study.arms, *(one.arm for one in compared)])
    ]


def _object(
    campaign: StudyPlan, setting: Cell, arm: str, by_run: dict[Run, Record], compared: list[Figure]
) -> dict[str, Any]:
    run = setting.run("rpr", 0)
    facts: dict[str, Any] = {
        "study": campaign.study.name,
        "small": campaign.small,
        "setting": setting.name,
        "stream": stream_label(run),
        "storage": run.memory.storage,
        "retrieval": arm,
        "buffer": run.memory.buffer,
        "replay": run.memory.replay,
        "seeds": campaign.seeds,
        "error_seeds": campaign.error_seeds,
    }
    if arm in campaign.study.arms:  # and not the ratio of two
        keys = [*KEYS, "gap_sd", *(column.key for column in campaign.study.columns if "." in column.key)]
        found = [by_run[setting.run(arm, seed)] for seed in range(campaign.seeds)]
        each = [{key: figure_of(record, key) for key in keys} for record in found]
        for key in keys:
            known = [value for one in each if (value := one[key]) is not None]
            mean = fmean(known) if known else None
            facts[key] = int(mean) if key == "steps" and mean is not None and mean.is_integer() else mean
        facts["per_seed"] = [{"seed": seed, **one} for seed, one in enumerate(each)]
    hidden = ("setting", "retrieval")
    facts["compared"] = [{k: v for k, v in _plain(one).items() if k not in hidden} for one in compared]
    return facts
