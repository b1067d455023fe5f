"""The file of a campaign: which runs a study asked for, and under which identity each is kept.

It lies in the store as campaigns/<name>.json, is written when the campaign begins, and is all that a report or another
terminal needs to find the runs: no images are read for that.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from reprise import __version__
from reprise.core.files import Damaged, OtherFormat, read_json, sealed, unsealed, write_json
from reprise.lab.study import Key
from reprise.runs.record import program
from reprise.runs.store import Store

FORMAT = "reprise-campaign/1"


@dataclass(frozen=True)
class CampaignFile:
    """A study as it was asked for."""

    name: str
    """The study's name, with `-small` for its small form."""
    study: str
    small: bool
    seeds: int
    error_seeds: int
    runs: tuple[tuple[Key, str], ...]
    """Every run by cell, arm and seed, with its identity; empty where its data could not be read."""
    command: tuple[str, ...] = ()
    reprise: str = __version__
    began: str = ""
    """When it was last begun, in UTC."""
    source: str = ""
    """The file that declares the study, if it is none of this library's."""
    only: str = ""
    """Which part of the study was asked for; empty if it was the whole."""
    needs_data: bool = False
    """Whether its images lie in a folder that a command must name."""

    @property
    def identities(self) -> dict[Key, str]:
        return {key: identity for key, identity in self.runs if identity}

    @property
    def again(self) -> str:
        """The command that makes the same campaign again, but for the folder of the store."""
        small = " --small" if self.small else ""
        spread = f" --error-seeds {self.error_seeds}" if self.error_seeds != self.seeds else ""
        part = f" --only {quote(self.only)}" if self.only else ""
        data = " --data DIR" if self.needs_data else ""
        return f"reprise study run {self.source or self.study}{small}{part} --seeds {self.seeds}{spread}{data}"

    def write(self, store: Store) -> None:
        """Keep it in a store."""
        folder = store.folder / "campaigns"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_json(folder / f"{self.name}.json", sealed(self._content()))
        except OSError as error:
            raise ValueError(f"{folder} cannot be written to: {error.strerror}") from None

    def _content(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            **{name: getattr(self, name) for name in ("name", "study", "small", "seeds", "error_seeds")},
            "command": list(self.command),
            "reprise": self.reprise,
            "began": self.began,
            "source": self.source,
            **({"only": self.only} if self.only else {}),
            **({"needs_data": True} if self.needs_data else {}),
            "runs": [[*key, identity] for key, identity in self.runs],
        }


def command() -> tuple[str, ...]:
    """The command that this process was begun with."""
    return (program(), *sys.argv[1:])


def campaign_files(store: Store) -> list[Path]:
    """The files of all campaigns of a store, in the order of their names."""
    return sorted(store.folder.glob("campaigns/*.json"))


def read_campaign(path: Path) -> CampaignFile | None:
    """What a campaign's file says; None if there is none. A damaged one, or one of another version, is an error."""
    try:
        content = read_json(path)
        if content is None:
            return None
        found = unsealed(content, FORMAT)
        if found["name"] != path.stem:
            raise Damaged(f"it is the file of the campaign {found['name']!r}")
        runs = tuple(((cell, arm, int(seed)), str(identity)) for cell, arm, seed, identity in found["runs"])
        names = ("name", "study", "small", "seeds", "error_seeds", "reprise", "began", "source")
        facts = {name: found[name] for name in names}
        facts |= {"only": found.get("only", ""), "needs_data": found.get("needs_data", False)}
        return CampaignFile(runs=runs, command=tuple(found["command"]), **facts)
    except OtherFormat as other:
        raise ValueError(
            f"{path} was written by another version of reprise: {other}. Its records are still there; "
            "`reprise study run` with the same options writes the file anew"
        ) from None
    except (Damaged, KeyError, TypeError, ValueError) as damage:
        raise ValueError(
            f"{path} is damaged: {damage}. Its records are still there; "
            "`reprise study run` with the same options writes the file anew"
        ) from None


def first_difference(asked: Sequence[Key], kept: Sequence[Key]) -> str:
    """In which run two campaigns of a study differ, in words; empty if in none."""
    known, wanted = {*kept}, {*asked}
    for key in asked:
        if key not in known:
            return f"{key[1]} in {key[0]} with seed {key[2]} is new"
    for key in kept:
        if key not in wanted:
            return f"{key[1]} in {key[0]} with seed {key[2]} is no longer asked for"
    return ""
