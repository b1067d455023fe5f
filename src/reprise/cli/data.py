"""`reprise data`: which data sets there are, fetching them, and whether they are whole."""

from __future__ import annotations

import json as jsonlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from reprise.cli.output import check_output, write_output

Name = Annotated[str, Positional, arg(metavar="NAME")]
Folder = Annotated[Path, arg(metavar="DIR")]
Target = Annotated[str | None, arg(metavar="FILE|-", help_behavior_hint="")]


@dataclass(frozen=True)
class DataList:
    """List the data sets: what they hold, where they come from, on what terms, and which are here.

    Example: reprise data list --data data
    """

    data: Folder = Path("data")
    """Folder that holds the data sets."""
    json: Target = None
    """File for the list as JSON; - for standard output."""

    def run(self) -> int:
        from rich.console import Console
        from rich.table import Table

        from reprise.data import DATASETS, present

        _check(self.json)
        rows = [
            {
                "name": source.name,
                "classes": source.classes,
                "train": source.train,
                "test": source.test,
                "side": source.side,
                "home": source.home or None,
                "licence": source.licence or None,
                "archive": source.url or None,
                "md5": source.md5 or None,
                "bytes": source.size or None,
                "present": present(source, self.data),
            }
            for source in DATASETS.values()
        ]
        if self.json == "-":
            return _report(self.json, rows)
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for column in ("data set", "classes", "train", "test", "pixels", "from", "licence", f"in {self.data}"):
            side: Any = "right" if column in ("classes", "train", "test", "pixels") else "left"
            table.add_column(column, justify=side, overflow="fold", no_wrap=column == "data set")
        for row, source in zip(rows, DATASETS.values(), strict=True):
            held_out = {"train": "80%", "test": "20%"} if source.url else {}
            sizes = [f"{row[part]:,}" if row[part] else held_out.get(part, "—") for part in ("train", "test")]
            here = "—" if source.load else "needs no files" if not source.url else "yes" if row["present"] else "no"
            pixels = f"{source.side}×{source.side}" if source.side else "—"
            home, licence = source.home or "a module of yours", source.licence or "—"
            table.add_row(source.name, str(source.classes or "—"), *sizes, pixels, home, licence, here)
        wide = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 160
        Console(width=wide, markup=False, highlight=False).print(table)
        return _report(self.json, rows)


@dataclass(frozen=True)
class DataFetch:
    """Fetch a data set from its home, check it and unpack it. A transfer that stopped goes on where it stopped.

    Without a network, put the archive into the folder by hand: then it is checked and unpacked.

    Example: reprise data fetch cifar100 --data data
    """

    name: Name
    """The data set's name; `reprise data list` lists them."""
    data: Folder
    """Folder that holds the data sets; it is made if it is not there."""
    url: Annotated[str | None, arg(metavar="URL", help_behavior_hint="")] = None
    """A mirror to fetch from; the checksum must be the published one all the same."""

    def run(self) -> int:
        from reprise.data import fetch, find_dataset, present

        if self.url is not None and not self.url.startswith(("https://", "http://")):
            raise ValueError(f"--url must begin with https:// or http://, got {self.url!r}")
        there = present(find_dataset(self.name), self.data)
        with _bar() as show:
            folder = fetch(self.name, self.data, url=self.url, progress=show)
        already = f" already; `reprise data check {self.name} --data {self.data}` says whether it is whole"
        print(f"{self.name} is in {folder}{already if there else ''}")
        return 0


@dataclass(frozen=True)
class DataCheck:
    """Read every image of a data set, and compare their numbers with what it should have.

    Example: reprise data check cifar100 --data data
    """

    name: Name
    """The data set's name; `reprise data list` lists them."""
    data: Folder
    """Folder that holds the data sets."""
    json: Target = None
    """File for the figures as JSON; - for standard output."""

    def run(self) -> int:
        from reprise.data import check

        _check(self.json)
        with _bar() as show:
            found = check(self.name, self.data, progress=lambda done, whole: show("reading", done, whole))
        if self.json != "-":
            means, stds = (" ".join(f"{value:.4f}" for value in values) for values in (found.mean, found.std))
            print(
                f"{found.name} is whole: {found.classes} classes, {found.train:,} training and {found.test:,} test "
                f"images of {found.side}×{found.side} pixels; channel means {means}, deviations {stds}"
            )
        return _report(self.json, [asdict(found)])


def _check(target: str | None) -> None:
    if target is not None and target != "-":
        check_output(target, "--json")


def _report(target: str | None, rows: list[dict[str, Any]]) -> int:
    text = jsonlib.dumps(rows, indent=1, allow_nan=False) + "\n"
    if target == "-":
        sys.stdout.write(text)
    elif target is not None:
        write_output(target, text.encode())
    return 0


@contextmanager
def _bar() -> Iterator[Callable[[str, int, int], None]]:
    """A bar on a terminal for work that has several parts; otherwise nothing."""
    if not sys.stderr.isatty():
        yield lambda what, done, whole: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:.0f}%"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def show(what: str, done: int, whole: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=None)
            bar.update(tasks[what], completed=done, total=whole or None)

        yield show
