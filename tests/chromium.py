"""A page in Chromium: opened from disk without a network, at two sizes and in two colour schemes.

Playwright drives the browser of the system; what it would download itself is not used.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page, Route

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
NONE = "no Chromium: apt-get install chromium"
SIZES = {"desktop": (1280, 900), "phone": (390, 844)}
SCHEMES = ("light", "dark")


def find_chromium() -> str | None:
    """The browser of this machine."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window; it ends with the block."""
    from playwright.sync_api import sync_playwright

    program = find_chromium()
    if program is None:
        raise FileNotFoundError(NONE)
    # Chromium has no sandbox for root, and /dev/shm is small in many containers.
    flags = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=flags)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Noted:
    """What a page did that a page on disk must not do."""

    fetched: list[str] = field(default_factory=list)
    """Addresses it asked for that are neither the page nor within it."""
    said: list[str] = field(default_factory=list)
    """Errors and warnings, of the console and of scripts."""

    def check(self) -> None:
        assert not self.fetched, f"the page asked for {self.fetched}"
        assert not self.said, f"the page said {self.said}"


@contextmanager
def noting(browser: Browser, size: str, *, scheme: str = "light", scripts: bool = True) -> Iterator[tuple[Page, Noted]]:
    """An empty tab without a network, and what pages in it do wrong."""
    width, height = SIZES[size]
    phone = size == "phone"
    context = browser.new_context(
        viewport={"width": width, "height": height},
        has_touch=phone,
        is_mobile=phone,
        color_scheme=scheme,  # type: ignore[arg-type]
        reduced_motion="reduce",
        java_script_enabled=scripts,
        offline=True,
    )
    context.set_default_timeout(30_000)
    noted = Noted()

    def pass_on(route: Route) -> None:
        address = route.request.url
        if address.startswith(("file:", "data:")):
            route.continue_()
        else:
            noted.fetched.append(address)
            route.abort()

    def listen(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning", "assert"):
            noted.said.append(message.text)

    try:
        context.route("**/*", pass_on)
        page = context.new_page()
        page.on("console", listen)
        page.on("pageerror", lambda error: noted.said.append(str(error)))
        yield page, noted
    finally:
        context.close()


@contextmanager
def opened(browser: Browser, file: Path, size: str, *, scheme: str = "light", scripts: bool = True) -> Iterator[Page]:
    """A page from disk. At the end it must have asked for nothing else, and nothing may have complained."""
    with noting(browser, size, scheme=scheme, scripts=scripts) as (page, noted):
        page.goto(file.resolve().as_uri())
        yield page
        noted.check()
