"""The script that takes pictures of a page."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest
from chromium import NONE, SCHEMES, SIZES, find_chromium

pytest.importorskip("playwright", reason="Playwright, which drives the browser, is not installed")

TOOL = Path(__file__).parents[2] / "tools" / "screenshots.py"


@pytest.mark.skipif(find_chromium() is None, reason=NONE)
def test_a_page_is_pictured_at_two_sizes_and_in_two_schemes(tmp_path: Path) -> None:
    page, out = tmp_path / "long.html", tmp_path / "pictures"
    page.write_text(
        '<!doctype html><title>long</title><meta name="viewport" content="width=device-width">'
        '<meta name="color-scheme" content="light dark"><div style="height: 2000px">long</div>',
        encoding="utf-8",
    )
    done = subprocess.run([sys.executable, str(TOOL), str(page), str(out)], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    found = {path.name: path.read_bytes() for path in out.iterdir()}
    assert {*found} == {f"long-{size}-{scheme}.png" for size in SIZES for scheme in SCHEMES}
    for size, (width, _) in SIZES.items():
        light, dark = (found[f"long-{size}-{scheme}.png"] for scheme in SCHEMES)
        assert light != dark
        across, down = struct.unpack(">II", light[16:24])
        assert across == width
        assert down > 2000, "the whole page, not the window"
