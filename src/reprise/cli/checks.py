"""What can be known to be wrong with a request before any image is read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reprise.runs import Run


def check_data(run: Run, data: Path | None) -> None:
    """Say so if the data set of a run is not known, or needs a folder that is not given."""
    from reprise.data import find_dataset
    from reprise.data.loading import data_folder
    from reprise.streams.datasets import looks_like_path, needs_folder

    if data is not None:
        data_folder(data)
    if run.data is None or looks_like_path(run.data.name):
        return
    source = find_dataset(run.data.name)
    if needs_folder(run.data.name) and data is None:
        raise ValueError(
            f"the data set {run.data.name} needs --data DIR, the folder that holds {source.folder}; only glyphs needs "
            "no files"
        )
