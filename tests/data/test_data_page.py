"""The page on data: its figures are the code's, and its picture is what the script draws today."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image
from scripts import load_script

from reprise.data import DATASETS
from reprise.data.glyphs import MEAN, STD

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_figures_on_the_page() -> None:
    text = (DOCS / "data.md").read_text(encoding="utf-8")
    for source in DATASETS.values():
        mean, std = (source.mean, source.std) if source.name != "glyphs" else (MEAN, STD)
        if mean is not None and std is not None:
            digits = 4 if source.name == "tinyimagenet" else 8
            shown = [" ".join(f"{value:.{digits}f}"[1:] for value in values) for values in (mean, std)]
            assert " / ".join(shown) in text
        if source.url:
            assert (
                f"| `{source.name}` | `{source.folder}` | `{source.archive}` | {source.md5} | {source.size:,} |" in text
            )


def test_contact_sheet() -> None:
    module = load_script(DOCS / "make_glyphs.py")
    assert 1_000 < module.FILE.stat().st_size < 200_000
    with Image.open(module.FILE) as picture:
        shown = np.asarray(picture.convert("RGB"))[::2, ::2].astype(int)
    drawn = module.sheet().astype(int)
    assert shown.shape == drawn.shape
    # A palette of few colours moves every pixel a little.
    assert np.abs(shown - drawn).mean() < 10, "run python docs/make_glyphs.py and look at the picture"
