"""What a demo measured: two retrievals, the same seeds, waits and accuracies, and what that means in two sentences."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from reprise.core.files import Record
from reprise.lab.comparison import RunComparison, points
from reprise.lab.run_group import READOUTS, RunGroup
from reprise.lab.statistics import Paired, paired

FIRST, SECOND = READOUTS
"""The read-out that pictures and figures are of unless another is named, and the one that is told beside it."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """Runs of two retrievals with the same seeds, each named after its retrieval: `arm` is compared with `base`."""

    base: RunGroup
    arm: RunGroup

    @cached_property
    def comparison(self) -> RunComparison:
        """The two as runs compared anywhere else."""
        return RunComparison(self.arm, self.base, "final", FIRST, (), ())

    def contrast(self, readout: str = FIRST) -> Paired:
        """The difference in final accuracy, arm − base, pair by pair."""
        return paired(self.arm.values(readout=readout), self.base.values(readout=readout))

    @property
    def record(self) -> Record:
        """Any record: all agree in what does not depend on retrieval and seed."""
        return next(iter(self.arm.records.values()))

    @property
    def caption(self) -> str:
        """What was run, in one line."""
        run, stream = self.record["run"], self.record["stream"]
        classes, memory = len(stream["counts"]), run["memory"]
        seeds = list(self.arm.records)
        return " · ".join(
            [
                stream["name"].partition(" (")[0],  # what it has in brackets is said below
                f"{classes} classes in {run['stream']['tasks']} tasks",
                f"{stream['examples']:,} images, each seen once",
                f"{memory['storage']} of {memory['buffer']:,}",
                f"{run['learner']['name']}, ResNet-18 of width {run['network']['width']}",
                f"{run['stream']['batch']} arrive and {memory['replay']} are replayed a step",
                f"seeds {seeds[0]} to {seeds[-1]}",
            ]
        )

    @property
    def sentences(self) -> list[str]:
        """What it means: a sentence on waits and a sentence on accuracy, both written from the numbers."""
        return [self._waits(), self._accuracy()]

    def _waits(self) -> str:
        base, arm = self.base, self.arm
        proved = "" if arm.bound is None else f" ({arm.bound} is proved for classes that stay)"
        return (
            f"The longest that a stored class waited for replay was {base.longest} steps under {base.name} "
            f"and {arm.longest} under {arm.name}{proved}; waits beyond the bound that a randomised pass keeps "
            f"while classes come and go were {_count(base.broken)} a run under {base.name}, "
            f"{_count(arm.broken)} under {arm.name}."
        )

    def _accuracy(self) -> str:
        found, base, arm = self.contrast(), self.base.name, self.arm.name
        second, first = map(self.comparison.shown, self.comparison.means())
        missing = f" ({found.missing}, where a is {arm} and b is {base})" if found.missing else ""
        measured = (
            f"Over {found.n} pairs of runs{missing} that differ in nothing but when stored classes return, the "
            f"{READOUTS[FIRST]} named {second} of test images under {arm} and {first} under {base}, "
            f"{points(found.mean)} points apart with a {found.confidence:.0%} interval from {points(found.low)} to "
            f"{points(found.high)}"
        )
        if found.clear:
            size = "" if found.material else ", though by little"
            verdict = f"here {arm if found.mean > 0 else base} learned better{size}"
        else:
            verdict = "the interval includes 0, so these runs do not show which of the two learns better"
        other = self.contrast(SECOND)
        beside = f"{points(other.mean)} points, from {points(other.low)} to {points(other.high)}"
        return f"{measured}: {verdict} (for the {READOUTS[SECOND]} it is {beside})."


def _count(mean: float) -> str:
    return "none" if not mean else f"{mean:,.0f}" if mean >= 1 else f"{mean:.1f}"
