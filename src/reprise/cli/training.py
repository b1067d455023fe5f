"""How `reprise train` makes its runs: one that is watched, many side by side, or one that several processes share."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from reprise.cli.display import Watch, screen
from reprise.cli.errors import WrongRequest
from reprise.cli.fleet_display import fleet_screen
from reprise.cli.options import go_on
from reprise.core.files import Record
from reprise.execute import Here, choose
from reprise.execute.one import ImageSource
from reprise.lab.campaign import campaign
from reprise.runs import Images, Run, Store
from reprise.track import Tracking
from reprise.train import train
from reprise.train.ranks import Ranks


def one(
    run: Run, images: ImageSource, device: str, *, store: Store | None, checkpoint_every: int, track: Tracking
) -> Record:
    """Make one run in this process, and show how far it is."""
    with screen(about(run, device)) as shown:
        images(run, shown.reading)
        executor = Here(images, device, Watch(shown), shown.say)
        (outcome,) = campaign(
            [run],
            executor,
            store,
            images=images,
            keep_files=True,
            checkpoint_every=checkpoint_every,
            track=track,
            warn=shown.say,
        )
    if outcome.known:
        print("this run was finished before; its record is shown", file=sys.stderr)
    if outcome.record is None:
        from reprise.cli.train import failure

        raise failure(outcome, device)
    return outcome.record


def many(
    runs: Sequence[Run],
    images: ImageSource,
    device: str,
    *,
    store: Store | None,
    checkpoint_every: int,
    track: Tracking,
    jobs: int | None,
    lanes: int | None,
    time_limit: float | None,
) -> list[Record]:
    """Make many runs, show how far they are, and give the records of those that did not fail, in the order asked."""
    from reprise.cli.train import failure

    found: dict[Run, Record | None] = {}
    executor = choose(runs, data=images.data, device=device, jobs=jobs, lanes=lanes)
    with fleet_screen(f"{len(runs)} runs on {device}") as shown:
        for outcome in campaign(
            runs,
            executor,
            store,
            images=images,
            checkpoint_every=checkpoint_every,
            time_limit=time_limit,
            track=track,
            watch=shown,
            warn=shown.say,
        ):
            found[outcome.run] = outcome.record
            if outcome.record is None:
                shown.say(f"{outcome.name} failed: {failure(outcome, device)}")
        if left := len(runs) - len(found):
            rest = "" if store is None else f"; {go_on(time_limit)}"
            shown.say(f"{left} of {len(runs)} runs are still to be made{rest}")
    return [record for run in runs if (record := found.get(run)) is not None]


def shared(
    run: Run, images: Images, device: str, *, store: Store | None, checkpoint_every: int, track: Tracking
) -> Record | None:
    """Make one run with the other processes of the group; None for a process other than the first.

    The first process looks into the store and writes, for all.
    """
    ranks, where = Ranks.here(), torch.device(device)
    identity = run.identity(images.fingerprints(run))
    claim = store.claim(identity) if store is not None and ranks.first else None
    try:
        if ranks.told(store is not None and ranks.first and claim is None, where):
            raise WrongRequest("this run is being made by another process")
        record = store.get(identity) if store is not None and ranks.first else None
        if ranks.told(record is not None, where):
            return record
        folder: Path | None = None if store is None else store.unfinished(identity)
        keep = None if store is None else store.files(identity)
        chosen = {"checkpoint_every": checkpoint_every, "checkpoints": folder, "keep": keep, "track": track}
        if not ranks.first:
            train(run, images, device=device, **chosen)  # type: ignore[arg-type]
            return None
        with screen(about(run, device)) as shown:
            record = train(run, images, device=device, watch=Watch(shown), warn=shown.say, **chosen)  # type: ignore[arg-type]
        if store is not None:
            store.put(record)
            store.write_index()
        return record
    finally:
        if claim is not None:
            claim.release()


def about(run: Run, device: str) -> str:
    """What is trained, in a line."""
    assert run.learner is not None
    memory = run.memory
    kept = f"{memory.storage} {memory.buffer:,} · {memory.retrieval} {memory.replay}" if run.draws else "no replay"
    return f"{run.learner.name} on {run.stream_name} · {kept} · seed {run.seed} · {device}"
