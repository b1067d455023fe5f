"""What can be chosen about a stream, checked once."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Literal, get_args

Order = Literal["label", "permuted"]


@dataclass(frozen=True)
class StreamOptions:
    """The choices behind a stream, apart from its data set and its seed.

    `imbalance` is the factor of the long tail within each task, 1 for none. `batch` examples arrive per step. `order`
    puts classes into tasks by label or by a seeded permutation. `validation` holds out a tenth of each class. A
    fraction `disjoint` of the classes stays whole in its task; every other class has a fraction `blur` of its examples
    spread over the other tasks. So `disjoint=1` or `blur=0` means sharp boundaries.
    """

    imbalance: float = 1.0
    batch: int = 32
    tasks: int = 10
    order: Order = "label"
    validation: bool = False
    disjoint: float = 1.0
    blur: float = 0.0

    def __post_init__(self) -> None:
        _check_real("imbalance", self.imbalance, 1, math.inf)
        _check_count("batch", self.batch)
        _check_count("tasks", self.tasks)
        if self.order not in get_args(Order):
            raise ValueError(f"order must be 'label' or 'permuted', got {self.order!r}")
        if not isinstance(self.validation, bool):
            raise TypeError(f"validation must be True or False, got {self.validation!r}")
        _check_real("disjoint", self.disjoint, 0, 1)
        _check_real("blur", self.blur, 0, 1)
        if self.blurry and self.tasks == 1:
            raise ValueError(f"blur={self.blur!r} needs other tasks to spread examples over, but tasks is 1")

    @property
    def blurry(self) -> bool:
        """Whether any example may leave the task of its class."""
        return self.disjoint < 1 and self.blur > 0

    def changed(self) -> dict[str, object]:
        """The choices that differ from the usual ones; the imbalance is left to the stream's name."""
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name != "imbalance" and getattr(self, field.name) != field.default
        }


def _check_count(what: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{what} must be a whole number, got {value!r}")
    if value < 1:
        raise ValueError(f"{what} must be 1 or more, got {value}")


def _check_real(what: str, value: object, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{what} must be a number, got {value!r}")
    if not low <= float(value) <= high or math.isinf(value):
        allowed = f"{low} or more" if math.isinf(high) else f"from {low} to {high}"
        raise ValueError(f"{what} must be {allowed}, got {value}")
