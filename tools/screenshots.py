"""Pictures of a whole page in Chromium: desktop and phone, light and dark.

    python tools/screenshots.py PAGE.html OUTDIR

Needs Playwright (in the dev extra) and Chromium (apt-get install chromium).
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))  # tests open pages in the same way

from chromium import SCHEMES, SIZES, chromium, noting
from playwright.sync_api import Browser, Error


def take(browser: Browser, page: Path, size: str, scheme: str, picture: Path) -> list[str]:
    """Take one picture, and say what the page complained of."""
    with noting(browser, size, scheme=scheme) as (tab, noted):
        tab.goto(page.resolve().as_uri())
        tab.screenshot(path=picture, full_page=True)
    return noted.said + noted.fetched


def main(page: Path, out: Path) -> int:
    if not page.is_file():
        sys.exit(f"There is no file {page}.")
    out.mkdir(parents=True, exist_ok=True)
    complaints = []
    with chromium() as browser:
        for size in SIZES:
            for scheme in SCHEMES:
                picture = out / f"{page.stem}-{size}-{scheme}.png"
                try:
                    complaints += take(browser, page, size, scheme, picture)
                except Error:  # seen once, with a long page, and not understood: a new tab is tried
                    complaints += take(browser, page, size, scheme, picture)
                print(picture)
    for complaint in dict.fromkeys(complaints):
        print(f"the page said, or asked for: {complaint}", file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python tools/screenshots.py PAGE.html OUTDIR")
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
