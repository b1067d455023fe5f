"""A store packed for others to read: its campaigns, and their records in Parquet files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
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

    Nothing is written if that would take packed records from `into` which the store does not have.
    """
    pyarrow()
    campaigns = list(campaigns)
    tried, done = set[str](), set[str]()

    def found(identities: Iterable[str]) -> list[Record]:
        wanted = [one for one in dict.fromkeys(identities) if one not in tried]
        with collection_paused():
            there = [record for one in wanted if (record := store.get(one, warn)) is not None]
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
        campaign.write(into)
    _remove(into, {OTHERS, _ALSO_OTHERS, *(one.name for one in files)} - {one.name for one in files if one.content})
    return files


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
