"""Two sets of runs compared pair by pair, from their records alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from reprise.core.files import Record
from reprise.lab.doubts import doubts
from reprise.lab.matching import match
from reprise.lab.run_group import METRICS, READOUTS, RunGroup
from reprise.lab.statistics import Paired, paired
from reprise.lab.table import setting_word, settings, shown

__all__ = ["READOUTS", "RunComparison", "RunGroup", "SettingPair", "compare_runs", "match", "percent", "points"]

_NAMED = 3  # settings in the name of a side
_TELLING = ("learner.name", "memory.retrieval", "memory.storage", "data.name", "stream.imbalance", "network.name")
"""The settings by which runs are mostly known: they are named first."""


@dataclass(frozen=True)
class SettingPair:
    """A setting that the two sides do not share; None where a side does not have it, or leaves it unset."""

    name: str
    a: Any
    b: Any

    def __str__(self) -> str:
        return f"{self.name}: {shown(self.a)} | {shown(self.b)}"


@dataclass(frozen=True, eq=False)
class RunComparison:
    """Runs of two settings, paired by seed; differences are a less b."""

    a: RunGroup
    b: RunGroup
    metric: str
    readout: str
    differs: tuple[SettingPair, ...]
    """All settings in which the two sides differ."""
    doubts: tuple[str, ...]
    """Sentences: what makes the pairing doubtful, as far as records tell."""

    def contrast(self, readout: str | None = None) -> Paired | None:
        """The difference a − b in the metric, pair by pair; None with fewer than two pairs."""
        a, b = (side.values(self.metric, readout or self.readout) for side in (self.a, self.b))
        return paired(a, b) if len(self._pairs(readout)) > 1 else None

    def means(self, readout: str | None = None) -> tuple[float | None, float | None]:
        """The mean of a and of b, over the pairs; None without any."""
        pairs = self._pairs(readout)
        return (fmean(a for a, _ in pairs), fmean(b for _, b in pairs)) if pairs else (None, None)

    def _pairs(self, readout: str | None = None) -> list[tuple[float, float]]:
        a, b = (side.values(self.metric, readout or self.readout) for side in (self.a, self.b))
        found = [(value, b.get(seed)) for seed, value in a.items()]
        return [(value, other) for value, other in found if value is not None and other is not None]

    @property
    def seeds(self) -> list[int]:
        """All seeds of the two sides, in order."""
        return sorted({*self.a.records, *self.b.records})

    @property
    def readouts(self) -> list[str]:
        """The read-outs that the metric has a value for: none, if it is no metric of a read-out."""
        return [name for name in READOUTS if self.is_metric] if self.a.trained and self.b.trained else []

    @property
    def is_metric(self) -> bool:
        """Whether the figure is a metric of a read-out, and so a share."""
        sides = [next(iter(side.records.values())) for side in (self.a, self.b)]
        return all(self.metric in record.get("metrics", {}).get(self.readout, {}) for record in sides)

    @property
    def title(self) -> str:
        """The figure in words."""
        return METRICS.get(self.metric, self.metric) if self.is_metric else self.metric

    @property
    def verdict(self) -> str:
        """What was measured, in one sentence."""
        found, (first, second) = self.contrast(), self.means()
        what = f"{self.title} of the {READOUTS.get(self.readout, self.readout)}" if self.is_metric else self.title
        if first is None or second is None:
            return f"No two runs can be paired, so nothing is known of the difference in {what}."
        both = f"{self.shown(first)} under {self.a.name} and {self.shown(second)} under {self.b.name}"
        apart = f"{self.difference(first - second)}{' points' if self.is_metric else ''} apart"
        if found is None:
            return f"In the only pair, {what} is {both}, {apart}; one pair has no interval."
        interval = f"{found.confidence:.0%} interval from {self.difference(found.low)} to {self.difference(found.high)}"
        side = self.a.name if found.mean > 0 else self.b.name
        clear = f"excludes 0: {side} is higher" if found.clear else "includes 0: these runs do not show which is higher"
        return f"Over {found.n} pairs of runs, {what} is {both}, {apart}, with a {interval}, which {clear}."

    def shown(self, value: float | None) -> str:
        """A value of the figure: a share in per cent, anything else as a number."""
        return "—" if value is None else percent(value) if self.is_metric else f"{value:.5g}"

    def difference(self, value: float | None) -> str:
        """A difference of two values, with its sign: of shares in percentage points."""
        if value is None:
            return "—"
        return points(value) if self.is_metric else f"{value:+.4g}".replace("-", "−")

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain numbers, strings and None."""
        return {
            "metric": self.metric,
            "readout": self.readout if self.is_metric else None,
            "a": self._side(self.a),
            "b": self._side(self.b),
            "difference": _numbers(self.contrast()),
            "differences": {name: _numbers(self.contrast(name)) for name in self.readouts},
            "verdict": self.verdict,
            "differs": [{"setting": one.name, "a": one.a, "b": one.b} for one in self.differs],
            "doubts": list(self.doubts),
        }

    def _side(self, side: RunGroup) -> dict[str, Any]:
        return {
            "name": side.name,
            "runs": {str(seed): record["identity"] for seed, record in side.records.items()},
            "values": {str(seed): value for seed, value in side.values(self.metric, self.readout).items()},
            "mean": self.means()[0 if side is self.a else 1],
            "longest_wait": side.longest,
            "bound": side.bound,
        }


def compare_runs(
    a: Sequence[Record], b: Sequence[Record], metric: str = "final", readout: str = "ema"
) -> RunComparison:
    """Compare two sets of runs seed by seed; the runs of each side differ in their seed alone.

    `metric` is one of a read-out, as `final` or `live.final`, or another figure by its whole name, as `audit.max`.
    """
    if metric.partition(".")[0] in READOUTS:
        readout, _, metric = metric.partition(".")
    first, second = _settings(a, "first"), _settings(b, "second")
    names = [*first, *(name for name in second if name not in first)]
    differs = tuple(
        SettingPair(name, first.get(name), second.get(name)) for name in names if first.get(name) != second.get(name)
    )
    one, other = RunGroup(_name(differs, 0), _by_seed(a)), RunGroup(_name(differs, 1), _by_seed(b))
    found = RunComparison(one, other, metric, readout, differs, doubts(one, other, a, b))
    found.contrast()  # so that an unknown metric is an error here
    return found


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


def _settings(records: Sequence[Record], side: str) -> dict[str, Any]:
    """What the runs of a side have in common, which is everything but the seed."""
    if not records:
        raise ValueError(f"the {side} side of the comparison has no run")
    each = [settings(record) for record in records]
    names = dict.fromkeys(name for one in each for name in one)
    for name in sorted(names, key=_rank):
        if len(found := list(dict.fromkeys(_value(name, one.get(name)) for one in each))) > 1:
            raise ValueError(
                f"the runs of a side must differ in their seed alone; those of the {side} differ in {name}, which is "
                f"{' and '.join(found)}"
            )
    return each[0]


def _by_seed(records: Iterable[Record]) -> dict[int, Record]:
    """Records by seed, in order of seeds; of several of one seed the first."""
    found: dict[int, Record] = {}
    for record in records:
        found.setdefault(record["run"]["seed"], record)
    return dict(sorted(found.items()))


def _name(differs: Sequence[SettingPair], side: int) -> str:
    """A side by the settings that tell it from the other; of many, by the most telling."""
    if not differs:
        return "AB"[side]
    parts = []
    for one in sorted(differs, key=lambda one: _rank(one.name))[:_NAMED]:
        value = (one.a, one.b)[side]
        word = isinstance(value, str) or one.name == "learner.name"
        parts.append(_value(one.name, value) if word else f"{setting_word(one.name)} {shown(value)}")
    return ", ".join(parts)


def _rank(name: str) -> int:
    """Telling settings first, the others as they come."""
    return _TELLING.index(name) if name in _TELLING else len(_TELLING)


def _value(name: str, value: Any) -> str:
    return "no learner" if name == "learner.name" and value is None else shown(value)


def _numbers(found: Paired | None) -> dict[str, Any] | None:
    if found is None:
        return None
    names = ("n", "mean", "sd", "t", "p", "low", "high", "confidence", "positive", "relative", "clear", "material")
    return {name: getattr(found, name) for name in names}
