"""What a study's figures are called and what they mean, how they are judged, and what they do not show."""

from __future__ import annotations

from reprise.lab.figure import LIMIT
from reprise.lab.outcome import StudyOutcome
from reprise.lab.run_group import METRICS
from reprise.lab.spread import Spread
from reprise.lab.statistics import MATERIAL
from reprise.lab.study_plan import StudyPlan
from reprise.lab.table import settings

ROUNDING = "r"  # follows a difference that only the paper's rounding explains
HALF_WIDTH = 0.25  # percentage points: how far an interval should reach, where a table says how many seeds that takes

HEADS = {
    "mean": "mean gap",
    "p50": "median gap",
    "p95": "95th percentile of gaps",
    "p99": "99th percentile of gaps",
    "max": "longest gap",
    "wall_max": "longest gap, evictions ignored",
    "pair_coverage": "pair coverage",
    "pair_entropy": "pair entropy",
    "gap_sd": "sd of gaps",
    "distinct_per_batch": "classes in a batch",
    "final": "final accuracy",
    "boundary_mean": "mean accuracy at task boundaries",
}
SHORT = {"p50": "p50", "p95": "p95", "p99": "p99", "max": "max", "wall_max": "wall max", "mean": "mean"}
_READOUTS = {"ema": "EMA", "live": "live"}
TERMS = {
    "cell": "a setting that several arms share, such as data set, stream and storage.",
    "arm": "a rule for which stored examples are replayed. Arms of a cell differ in nothing else.",
    "seed": "the number that decides order of arrival, first weights and draws. Runs with the same seed are paired.",
    "interval": "a range that holds the true mean in 95 of 100 such studies (Student's t).",
    "sd": "the standard deviation between runs of different seeds.",
    "read-out": "the network that is tested: live is the network as trained, EMA a moving average of its weights.",
    "contrast": "a difference of arms or cells, taken seed by seed and then averaged.",
    "agreement": "whether ours is as near to the paper's as chance and rounding allow; the rules stand below.",
    "s.e.": "standard error of the difference of two means, ours and the paper's.",
    "relative": "the mean over the mean of what is compared with.",
    "t, p": "t is the mean over its standard error, p the chance of such a t if there were no difference.",
    "Holm p": "p after Holm's correction, where several contrasts of a family are tested.",
    "k": "seeds whose own difference is above 0, out of n.",
    "material": f"the interval excludes 0 and the mean is more than {MATERIAL:.0%} of what it is compared with.",
    "gap": "steps between two replays of a class that stayed in memory.",
    "resident": "a class is resident while the memory holds an example of it.",
    "b, C": "examples replayed in a step, and resident classes.",
    "bound": "the longest wait that is proved for an arm, for C classes that stay.",
    "violation": "a gap longer than a randomised pass allows in that interval, ⌈(2C − 1 + I)/b⌉ with I arrivals.",
    "deactivation": "the last example of a class leaves the memory.",
    "pair coverage": "the share of all pairs of classes that were in one replayed batch at least once.",
    "pair entropy": "how evenly pairs met: 1 if all met equally often.",
    "identity": "a hash of all settings and the data of a run; its record is kept under it.",
    "tape": "everything that a run replayed, step by step. Equal hashes mean equal replay.",
}
"""What a reader may not know, each in a sentence."""
_KEY_TERMS = {
    "violations": ("resident", "b, C", "violation"),
    "deactivations": ("resident", "deactivation"),
    "pair_coverage": ("pair coverage",),
    "pair_entropy": ("pair entropy",),
    **dict.fromkeys(("mean", "p50", "p95", "p99", "max", "wall_max", "gap_sd"), ("gap",)),
}


def head(key: str) -> str:
    """A figure's name as a table shows it.

    >>> head("ema.final"), head("p99"), head("diagnostics.bias_displacement.1-4.mean")
    ('final accuracy, EMA, %', '99th percentile of gaps', 'bias displacement 1-4 mean')
    """
    first, dot, rest = key.partition(".")
    if first in _READOUTS and dot:
        return f"{HEADS.get(rest, METRICS.get(rest, rest))}, {_READOUTS[first]}, %"
    return HEADS.get(key, key.removeprefix("diagnostics.").replace("_", " ").replace(".", " "))


def short_head(key: str) -> str:
    """A figure's name where there is little room."""
    return SHORT.get(key, head(key))


def terms_of(key: str) -> tuple[str, ...]:
    """The terms that the name of a figure takes for granted."""
    return ("read-out",) if key.partition(".")[0] in _READOUTS else _KEY_TERMS.get(key, ())


class Glossary:
    """Explains each term where it is first asked for."""

    def __init__(self) -> None:
        self.said: set[str] = set()

    def __call__(self, *names: str) -> list[tuple[str, str]]:
        new = [name for name in dict.fromkeys(names) if name not in self.said]
        self.said |= {*new}
        return [(name, TERMS[name]) for name in new]


def about(plan: StudyPlan) -> str:
    """What the study runs; of the small form, that it is another one; of a part, which it is."""
    part = f" Only a part was asked for: {plan.only}." if plan.only else ""
    if not plan.small:
        return f"{plan.study.about}{part}"
    names = "; ".join(cell.name for cell in plan.study.small)
    return f"In full: {plan.study.about} The small form, shown here, runs {names} instead.{part}"


STATISTICS = "Ours (the paper's). Apart from the first they go with the number of seeds, so they are not judged."


def rules(outcome: StudyOutcome) -> list[str]:
    """How figures are compared with the paper's, in sentences: those rules that were used."""
    plan, used = outcome.plan, {one.rule for one in outcome.judged if not isinstance(one, Spread)}
    whole = not outcome.runs.missing
    said = [_ours(plan, whole=whole)]
    theirs = plan.study.paper_runs
    if "errors" in used:
        mine = str(plan.seeds) if whole else "n"
        runs = "the single run that the paper seems to report" if theirs == 1 else f"the paper's {theirs}"
        said.append(
            f"A figure agrees if it differs from the paper's by at most {LIMIT} standard errors and half a unit of its "
            f"last printed digit. A standard error is sd·√(1/{mine} + 1/{theirs}), for {mine} runs of ours and {runs}."
        )
    if "zero" in used:
        said.append("Where the paper prints 0 violations, every run of ours must have exactly 0.")
    if "bound" in used:
        said.append("Where a bound is proved, the longest gap of our runs must equal it, and so must the paper's.")
    if "overlap" in used:
        said.append("A contrast agrees if its interval and the interval that the paper prints overlap.")
    if "inside" in used:
        said.append(
            "Where the paper prints a contrast without an interval, its seeds are taken to spread as ours do, and the "
            "95% interval of the difference of the two means must hold 0."
        )
    if outcome.spreads:
        said.append(
            f"A standard deviation agrees if its 95% interval, by χ², and that of the paper's, of {theirs} runs, "
            "overlap."
        )
    if any(figure.difference and abs(figure.difference) > LIMIT and figure.within for figure in outcome.figures):
        said.append(
            f"{ROUNDING} after a difference: more than {LIMIT} standard errors, which the paper's rounding allows."
        )
    return said


def _ours(plan: StudyPlan, *, whole: bool) -> str:
    """What our figures are, in a sentence; not `whole` where runs are missing."""
    spread = f"; the standard deviation is that of {plan.error_seeds} seeds." if plan.error_seeds > 1 else "."
    if plan.seeds == 1:
        return f"Ours is the figure of seed 0 alone, without an interval{spread}"
    if whole:
        return f"Ours is the mean over seeds 0 to {plan.seeds - 1}, with its 95% interval{spread}"
    return (
        f"Ours is the mean over those of seeds 0 to {plan.seeds - 1} whose run is there, n, with its 95% interval "
        "and the standard deviation between them."
    )


def limits(outcome: StudyOutcome) -> list[str]:
    """What the result rests on, and so does not show."""
    plan, runs = outcome.plan, outcome.runs
    each = [settings(next(iter(group.records.values()))) for group in runs.groups.values() if group.records]
    said = []
    for name, word, words in (
        ("data.name", "data set", "data sets"),
        ("learner.name", "learner", "learners"),
        ("network.name", "network", "networks"),
    ):
        if found := list(dict.fromkeys(str(one[name]) for one in each if one.get(name) is not None)):
            said.append(f"{len(found)} {word if len(found) == 1 else words} ({', '.join(found)})")
    cells = len({cell for (cell, _), group in runs.groups.items() if group.records})
    on = ", ".join([f"{cells} cell{'s' * (cells > 1)}", *said])
    seeds = _seeds([*range(plan.seeds)]) if plan.seeds == 1 or not runs.missing else f"up to {plan.seeds} seeds"
    sentences = [f"The result is of {on}, and of {seeds}. It says nothing of others."]
    sentences.append(
        "This is the small form: other data and shorter streams than the paper's, chosen so that a laptop can run it. "
        "Its figures are not the paper's."
        if plan.small
        else "Settings are the paper's where it prints them. What it leaves open is our choice, and is named below."
        if plan.study.notes
        else "Settings are the paper's where it prints them."
    )
    if plan.study.split == "validation":
        sentences.append("Runs were tested on images held out of training, and not on test images.")
    return [*sentences, *plan.study.notes]


def missing(outcome: StudyOutcome) -> list[str]:
    """The runs that are not there: a sentence for each cell and arm."""
    found: dict[tuple[str, str], list[int]] = {}
    for cell, arm, seed in outcome.runs.missing:
        found.setdefault((cell, arm), []).append(seed)
    return [f"{cell}, {arm}: {_seeds(seeds)}" for (cell, arm), seeds in found.items()]


def _seeds(seeds: list[int]) -> str:
    """
    >>> _seeds([3]), _seeds([0, 1, 2, 5])
    ('seed 3', 'seeds 0 to 2, 5')
    """
    spans: list[list[int]] = []
    for seed in seeds:
        if spans and seed == spans[-1][-1] + 1:
            spans[-1].append(seed)
        else:
            spans.append([seed])
    said = ", ".join(str(one[0]) + f" to {one[-1]}" * (len(one) > 1) for one in spans)
    return f"seed {said}" if len(seeds) == 1 else f"seeds {said}"
