"""What can be chosen about a stream, checked once."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, get_args

from reprise.core.arguments import as_float, as_int

Order = Literal["label", "permuted"]


@dataclass(frozen=True)
class StreamOptions:
    """The choices behind a stream, apart from its data set and its seed.

    `imbalance` is the factor of the long tail within each task, 1 for none. `batch` examples arrive per step. `order`
    puts classes into tasks by label or by a seeded permutation. `validation` holds out a tenth of each class. A
    fraction `disjoint` of the classes stays whole in its task; every other class has a fraction `blur` of its examples
    spread over the other tasks. So `disjoint=1` or `blur=0` means sharp boundaries. `imbalance_seed` says which classes
    of a long tail are rare, and nothing else; it is the stream's seed unless given.
    """

    imbalance: float = 1.0
    batch: int = 32
    tasks: int = 10
    order: Order = "label"
    validation: bool = False
    disjoint: float = 1.0
    blur: float = 0.0
    imbalance_seed: int | None = None

    def __post_init__(self) -> None:
        as_float(self.imbalance, "imbalance", 1)
        as_int(self.batch, "batch", 1)
        as_int(self.tasks, "tasks", 1)
        if self.order not in get_args(Order):
            raise ValueError(f"order must be 'label' or 'permuted', got {self.order!r}")
        if not isinstance(self.validation, bool):
            raise TypeError(f"validation must be True or False, got {self.validation!r}")
        as_float(self.disjoint, "disjoint", 0, 1)
        as_float(self.blur, "blur", 0, 1)
        if self.imbalance_seed is not None:
            as_int(self.imbalance_seed, "imbalance_seed", 0)
            if self.imbalance == 1:
                raise ValueError(
                    f"imbalance_seed says which classes of a long tail are rare; a balanced stream has none, got "
                    f"{self.imbalance_seed}"
                )
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
