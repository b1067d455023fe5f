"""The data sets known by name: what they hold, where they come from, how they are normalised."""

from __future__ import annotations

import os
from dataclasses import dataclass

from reprise.streams.datasets import nearest_dataset

from .imageset import Triple

GIB = 1 << 30


@dataclass(frozen=True)
class Source:
    """One data set: its size, its home, and the archive that is fetched from there."""

    name: str
    classes: int
    train: int | None
    test: int | None
    side: int
    home: str
    licence: str
    folder: str = ""
    url: str = ""
    md5: str = ""
    size: int = 0
    """The bytes of the archive as published: no more are fetched. Its checksum decides whether it is the right one."""
    limit: int = 0
    """The most bytes that the archive may unpack to."""
    mean: Triple | None = None
    std: Triple | None = None
    exact: bool = False
    """Whether `mean` and `std` are this training set's own to eight digits, so that they also tell a damaged copy."""

    @property
    def archive(self) -> str:
        """The archive's file name."""
        return self.url.rsplit("/", 1)[-1]

    def advice(self, root: str) -> str:
        """How to get the data set into the folder `root`, as a sentence without its full stop."""
        there = os.path.join(root, self.folder)
        first = f"remove the folder {there}, then " if os.path.isdir(there) else ""
        return (
            f"{first}run `reprise data fetch {self.name} --data {root}`, or put {self.archive} from {self.url} "
            f"(MD5 {self.md5}) into {root} and run it then"
        )


SOURCES: dict[str, Source] = {
    source.name: source
    for source in (
        Source(
            "cifar10",
            10,
            50_000,
            10_000,
            32,
            "https://www.cs.toronto.edu/~kriz/cifar.html",
            "none stated; cite Krizhevsky 2009",
            "cifar-10-batches-py",
            "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
            "c58f30108f718f92721af3b95e74349a",
            170_498_071,
            GIB,
            (0.49139968, 0.48215841, 0.44653091),
            (0.24703223, 0.24348513, 0.26158784),
            exact=True,
        ),
        Source(
            "cifar100",
            100,
            50_000,
            10_000,
            32,
            "https://www.cs.toronto.edu/~kriz/cifar.html",
            "none stated; cite Krizhevsky 2009",
            "cifar-100-python",
            "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
            "eb9058c3a382ffc7106e4002c42a8d85",
            169_001_437,
            GIB,
            (0.50707516, 0.48654887, 0.44091784),
            (0.26733429, 0.25643846, 0.27615047),
            exact=True,
        ),
        Source(
            "tinyimagenet",
            200,
            100_000,
            10_000,
            64,
            "https://cs231n.stanford.edu",
            "ImageNet's terms: research, not commerce",
            "tiny-imagenet-200",
            "https://cs231n.stanford.edu/tiny-imagenet-200.zip",
            "90528d7ca1a48142e341f4ef8d21d0de",
            248_100_043,
            2 * GIB,
            (0.4802, 0.4481, 0.3975),
            (0.2770, 0.2691, 0.2821),
        ),
        Source(
            "imagenet-r",
            200,
            None,
            None,
            224,
            "https://github.com/hendrycks/imagenet-r",
            "MIT; rights in the images stay with their makers",
            "imagenet-r",
            "https://people.eecs.berkeley.edu/~hendrycks/imagenet-r.tar",
            "a61312130a589d0ca1a8fca1f2bd3337",
            2_191_079_936,
            8 * GIB,
        ),
        Source("glyphs", 100, 50_000, 10_000, 32, "drawn by Reprise itself", "Apache-2.0, as Reprise"),
    )
}


def find_source(name: str) -> Source:
    """The data set of that name, or an error that names the nearest one, if any is near."""
    if name not in SOURCES:
        near = nearest_dataset(name)
        hint = ": known" if near is None else f", did you mean {near!r}? Known"
        raise ValueError(f"unknown data set {name!r}{hint} are {', '.join(SOURCES)}")
    return SOURCES[name]
