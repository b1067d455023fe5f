"""What a demo measured: two retrievals, the same seeds, waits and accuracies, and what that means in two sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from reprise.audit import Audit
from reprise.core.files import Record
from reprise.lab.statistics import Paired, paired
from reprise.memory import Scheduled, as_retrieval

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FIRST, SECOND = "ema", "live"
"""The read-out that pictures and figures are of unless another is named, and the one that is told beside it."""
READOUTS = {FIRST: "averaged network", SECOND: "live network"}


@dataclass(frozen=True, eq=False)
class Arm:
    """The runs of one retrieval: by seed, each one's record and the audit of its tape."""

    retrieval: str
    records: Mapping[int, Record]
    audits: Mapping[int, Audit]

    def final(self, readout: str = FIRST) -> dict[int, float | None]:
        """Final task-mean accuracy by seed."""
        return {seed: record["metrics"][readout]["final"] for seed, record in self.records.items()}

    def curves(self, readout: str = FIRST) -> Floats:
        """Seeds × tasks: at each task boundary, the mean accuracy of the tasks so far."""
        return np.stack([_curve(record, readout) for record in self.records.values()])

    @cached_property
    def gaps(self) -> Ints:
        """The gaps of all seeds."""
        return np.concatenate([audit.gaps for audit in self.audits.values()])

    @property
    def tail(self) -> Floats:
        """The share of gaps of at least 1, 2, … steps."""
        counts = np.bincount(self.gaps, minlength=1)
        tail: Floats = np.cumsum(counts[::-1])[::-1][1:] / max(len(self.gaps), 1)
        return tail

    @property
    def longest(self) -> int:
        """The longest wait, which need not be a gap; 0 if no class was ever stored when a batch was drawn."""
        return max(audit.longest or 0 for audit in self.audits.values())

    @property
    def broken(self) -> float:
        """Waits of any kind a run beyond the bound that a randomised pass keeps while classes come and go."""
        return float(np.mean([audit.violations + audit.overdue for audit in self.audits.values()]))

    @property
    def bound(self) -> int | None:
        """The longest wait that is proved once all classes are stored and stay; None where nothing is proved."""
        retrieval = as_retrieval(self.retrieval)
        if not isinstance(retrieval, Scheduled):
            return None
        classes = max(audit.class_max for audit in self.audits.values())
        replay = next(iter(self.records.values()))["configuration"]["replay"]
        return retrieval.schedule.bound(classes, replay)


def _curve(record: Record, readout: str) -> Floats:
    tested, stream = record["evaluations"], record["stream"]
    rows = np.array(tested["accuracies"][readout], np.float64)[np.array(tested["boundary"], bool)]  # None is NaN
    tasks, weights = np.array(stream["task_of_class"]), np.array(tested["test_counts"], np.float64)
    member = (tasks[:, None] == np.arange(tasks.max() + 1)) * weights[:, None]
    right, there = np.nan_to_num(rows) @ member, ~np.isnan(rows) @ member
    by_task = np.divide(right, there, out=np.full(right.shape, np.nan), where=there > 0)
    curve: Floats = np.nanmean(by_task, axis=1)
    return curve


@dataclass(frozen=True, eq=False)
class Outcome:
    """Two arms of the same seeds: `arm` is compared with `base`."""

    base: Arm
    arm: Arm

    def contrast(self, readout: str = FIRST) -> Paired:
        """The difference in final accuracy, arm − base, pair by pair."""
        return paired(self.arm.final(readout), self.base.final(readout))

    def means(self, readout: str = FIRST) -> tuple[float, float]:
        """The mean final accuracy of base and arm, over the pairs."""
        base, arm = self.base.final(readout), self.arm.final(readout)
        pairs = [(base[seed], arm[seed]) for seed in base if base[seed] is not None and arm.get(seed) is not None]
        first, second = np.array(pairs, np.float64).mean(0).tolist()
        return first, second

    @property
    def record(self) -> Record:
        """Any record: all agree in what does not depend on retrieval and seed."""
        return next(iter(self.arm.records.values()))

    @property
    def caption(self) -> str:
        """What was run, in one line."""
        run, stream = self.record["configuration"], self.record["stream"]
        classes = len(stream["counts"])
        seeds = list(self.arm.records)
        return " · ".join(
            [
                stream["name"].partition(" (")[0],  # what it has in brackets is said below
                f"{classes} classes in {run['tasks']} tasks",
                f"{stream['examples']:,} images, each seen once",
                f"{run['storage']} of {run['buffer']:,}",
                f"{run['learner']}, ResNet-18 of width {run['width']}",
                f"{run['batch']} arrive and {run['replay']} are replayed a step",
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
            f"The longest that a stored class waited for replay was {base.longest} steps under {base.retrieval} "
            f"and {arm.longest} under {arm.retrieval}{proved}; waits beyond the bound that a randomised pass keeps "
            f"while classes come and go were {_count(base.broken)} a run under {base.retrieval}, "
            f"{_count(arm.broken)} under {arm.retrieval}."
        )

    def _accuracy(self) -> str:
        found, base, arm = self.contrast(), self.base.retrieval, self.arm.retrieval
        first, second = map(percent, self.means())
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


def percent(share: float) -> str:
    """A share as a percentage.

    >>> percent(0.3124)
    '31.2%'
    """
    return f"{share:.1%}"


def points(difference: float) -> str:
    """A difference of shares in percentage points, with its sign.

    >>> points(0.0671), points(-0.004)
    ('+6.7', '−0.4')
    """
    return f"{100 * difference:+.1f}".replace("-", "−")
