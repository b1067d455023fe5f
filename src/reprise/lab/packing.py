"""A store packed for others to read: its campaigns, and their records in Parquet files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO

from reprise.core.files import Record, write_atomic
from reprise.lab.campaign_file import CampaignFile
from reprise.lab.table import as_columns
from reprise.runs.packed import FOLDER, Packed, pack, pyarrow
from reprise.runs.store import Store, collection_paused

OTHERS, _ALSO_OTHERS = "others", "other runs"
"""The file of runs that no campaign asks for; the second, if a campaign is called as the first."""
_OF_ONE_SEED = ("curves", "pairs")
"""Parts of which reports show the first seed alone; the tape, planned again, gives the pairs of any other."""


@dataclass(frozen=True)
class PackedFile:
    """A file of packed records."""

    name: str
    runs: int
    """Runs of the campaign, or of none."""
    written: int
    """Those that this file holds; the others are in a file before it, or are missing."""
    missing: int
    content: bytes
    """The file; empty if it would hold no run."""


def pack_store(
    store: Store, into: Store, campaigns: Iterable[CampaignFile], warn: Callable[[str], None] | None = None
) -> list[PackedFile]:
    """Write the records of a store into files of another: one for each campaign, in this order, and each run once.

    Of absolute paths in commands the last part alone is kept: where a folder lay is nobody else's concern.
    Nothing is written if that would take packed records from `into` which the store does not have.
    """
    pyarrow()
    campaigns = list(campaigns)
    tried, done = set[str](), set[str]()

    def found(identities: Iterable[str]) -> list[Record]:
        wanted = [one for one in dict.fromkeys(identities) if one not in tried]
        with collection_paused():
            there = [_without_folders(record) for one in wanted if (record := store.get(one, warn)) is not None]
        tried.update(wanted)
        done.update(record["identity"] for record in there)
        return there

    files = []
    for campaign in campaigns:
        there = found(campaign.identities.values())
        missing = sum(identity not in done for _, identity in campaign.runs)
        files.append(PackedFile(campaign.name, len(campaign.runs), len(there), missing, _packed(there)))
    if rest := found(sorted(store.ended(warn))):
        name = OTHERS if OTHERS not in {one.name for one in campaigns} else _ALSO_OTHERS
        files.append(PackedFile(name, len(rest), len(rest), 0, _packed(rest)))
    if lost := len({*Packed(into.folder / FOLDER).ended(warn)} - done):
        raise ValueError(
            f"{str(into.folder / FOLDER)!r} holds {lost} {'record' if lost == 1 else 'records'} that "
            f"{str(store.folder)!r} does not have, or not whole: remove its files first, or name another folder"
        )
    _write(into, files)
    for campaign in campaigns:
        replace(campaign, command=tuple(map(_last_part, campaign.command))).write(into)
    _remove(into, {OTHERS, _ALSO_OTHERS, *(one.name for one in files)} - {one.name for one in files if one.content})
    return files


def _without_folders(record: Record) -> Record:
    made = record["provenance"]
    if "command" not in made:
        return record
    return {**record, "provenance": {**made, "command": [*map(_last_part, made["command"])]}}


def _last_part(word: str) -> str:
    """A word of a command; of an absolute path, also behind an option's `=`, its last part.

    >>> [_last_part(word) for word in ("--data", "/home/someone/data", "--out=/tmp/out", "mine.py", "storage=brs")]
    ['--data', 'data', '--out=out', 'mine.py', 'storage=brs']
    """
    option, equals, value = word.rpartition("=") if word.startswith("-") else ("", "", word)
    path = Path(value)
    return f"{option}{equals}{path.name or value}" if path.is_absolute() else word


def _packed(records: Sequence[Record]) -> bytes:
    ordered = sorted(records, key=lambda record: (record["name"], record["identity"]))
    if not ordered:
        return b""
    return pack(ordered, as_columns(ordered), lambda record: () if record["run"]["seed"] == 0 else _OF_ONE_SEED)


def _write(into: Store, files: Iterable[PackedFile]) -> None:
    folder = into.folder / FOLDER
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for one in files:
            if one.content:
                write_atomic(folder / f"{one.name}.parquet", partial(_fill, one.content))
    except OSError as error:
        raise ValueError(f"{folder} cannot be written to: {error.strerror}") from None


def _fill(content: bytes, file: IO[bytes]) -> None:
    file.write(content)


def _remove(into: Store, names: Iterable[str]) -> None:
    """Remove files whose runs, if they had any, are in others now."""
    for name in names:
        (into.folder / FOLDER / f"{name}.parquet").unlink(missing_ok=True)
