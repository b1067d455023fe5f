"""The studies that a command is about, their runs, and the device for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import FlagCreatePairsOff, Positional, arg

from reprise.cli.checks import check_data
from reprise.cli.errors import WrongRequest
from reprise.core.extras import not_installed
from reprise.lab.study_plan import StudyPlan

if TYPE_CHECKING:
    from reprise.runs import Run

Name = Annotated[str, Positional, arg(metavar="NAME,...|all|FILE.py")]
One = Annotated[str, Positional, arg(metavar="NAME|FILE.py")]
Folder = Annotated[Path, arg(metavar="DIR")]
Data = Annotated[Path | None, arg(metavar="DIR", constructor=Path, help_behavior_hint="")]
Target = Annotated[str | None, arg(metavar="FILE|-", help_behavior_hint="")]
Number = Annotated[int | None, arg(metavar="N", help_behavior_hint="")]
Only = Annotated[str, arg(metavar="NAME=VALUE,...", help_behavior_hint="")]
Flag = Annotated[bool, FlagCreatePairsOff, arg(help_behavior_hint="")]


def plans_of(
    name: str,
    small: bool,
    seeds: int | None,
    error_seeds: int | None,
    data: Path | None,
    warn: Callable[[str], None],
    only: str = "",
) -> list[StudyPlan]:
    """The studies that were asked for; with `all`, those that can be made with what is at hand, and `warn` is told."""
    from reprise.studies import STUDIES, is_file, load_study

    plans = []
    for one in STUDIES if name == "all" else names_of(name):
        source = str(Path(one).resolve()) if is_file(one) else ""  # for a report that is asked for in another folder
        try:
            plan = StudyPlan.of(
                load_study(one), seeds=seeds, error_seeds=error_seeds, small=small, source=source, only=only
            )
        except ValueError as error:
            if name != "all" or not only:
                raise
            warn(f"The study {one} is left out: {error}.")
            continue
        if name == "all" and (why := _lacking(plan, data)):
            warn(f"The study {plan.name} is left out: {why}.")
            continue
        plans.append(plan)
    _check_names(plans)
    return plans


def names_of(text: str) -> list[str]:
    """The studies that a command names: one, or several separated by commas."""
    if Path(text).is_file():  # whose name may have a comma in it
        return [text]
    names = [part.strip() for part in text.split(",")]
    if not all(names):
        raise ValueError(f"several studies are named with single commas between them, got {text!r}")
    if "all" in names and len(names) > 1:
        raise ValueError(f"`all` stands alone, got {text!r}")
    return list(dict.fromkeys(names))


def _check_names(plans: Sequence[StudyPlan]) -> None:
    """Refuse two studies of one name: a store keeps one campaign under it."""
    seen: set[str] = set()
    for plan in plans:
        if plan.name in seen:
            raise ValueError(f"two of these studies are called {plan.study.name!r}: give one of them another name")
        seen.add(plan.name)


def _lacking(plan: StudyPlan, data: Path | None) -> str:
    """Why a study cannot be made here, in words; empty if it can."""
    if plan.study.trains and find_spec("torch") is None:
        return not_installed("training needs torch", "train")
    if not plan.study.trains:
        return ""
    from reprise.data import find_dataset, present
    from reprise.nets.build import lacking

    for run in [cell.run(plan.study.arms[0], 0) for cell in plan.study.form_cells(small=plan.small)]:
        assert run.data is not None
        assert run.network is not None
        try:
            check_data(run, data)
        except ValueError as error:
            return str(error)
        if data is not None and not present(find_dataset(run.data.name), data):
            return f"the data set {run.data.name} is not in {data}"
        if why := lacking(run.network.name, run.network.pretrained):
            return why
    return ""


def runs_of(plans: Sequence[StudyPlan], data: Path | None) -> list[Run]:
    runs = list(dict.fromkeys(run for plan in plans for run in plan.runs))
    for run in {run.data: run for run in runs if run.trains}.values():
        check_data(run, data)
    return runs


def device_of(plans: Sequence[StudyPlan], asked: str | None) -> str:
    if not any(plan.study.trains for plan in plans):
        return "cpu"
    from reprise.cli.devices import device_for

    if find_spec("torch") is None:
        raise WrongRequest(not_installed("training needs torch", "train"))
    return device_for(asked)
