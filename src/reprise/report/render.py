"""One template and one stylesheet for every page.

Needs jinja2, which comes with the extra `plot`.
"""

from __future__ import annotations

import re
from html import escape
from importlib.resources import files
from typing import Any

from reprise.core.extras import NotInstalled, not_installed
from reprise.report.colours import VARIABLES

__all__ = ["Markup", "inline_svg", "render", "stylesheet"]

try:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup
except ModuleNotFoundError as error:
    if error.name not in ("jinja2", "markupsafe"):
        raise
    raise NotInstalled(not_installed("a page needs jinja2", "plot"), name="jinja2") from None


def render(template: str, **values: Any) -> str:
    """A page as text. Whatever is put into it is escaped, unless it is `Markup`."""
    pages = Environment(
        loader=PackageLoader("reprise.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    pages.filters["code"] = code
    return pages.get_template(f"{template}.html.j2").render(stylesheet=Markup(stylesheet()), **values) + "\n"


def code(text: str) -> Markup:
    """Text whose words between backticks are code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(Markup.escape(text))))


def script() -> Markup:
    """What a page does beside being read."""
    return Markup((files("reprise.report") / "page.js").read_text(encoding="utf-8"))


def stylesheet() -> str:
    """What every page looks like, light and dark, wide and narrow."""
    return (files("reprise.report") / "page.css").read_text(encoding="utf-8")


def inline_svg(svg: str, prefix: str, said: str) -> Markup:
    """A picture as part of a page: no prologue, ids of its own, colours by name, a sentence for those who hear it."""
    tag, _, body = svg[svg.index("<svg") :].partition(">")
    tag = re.sub(r'\s(?:xmlns(?::\w+)?|version|width|height)="[^"]*"', "", tag)
    svg = f"{tag}>" + re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    svg = svg.replace("xlink:href=", "href=")
    svg = re.sub(r'\bid="', f'id="{prefix}', svg)
    svg = re.sub(r'href="#', f'href="#{prefix}', svg)
    svg = svg.replace("url(#", f"url(#{prefix}")
    for name, colour in VARIABLES.items():
        svg = svg.replace(colour, f"var(--{name})")
    return Markup(svg.replace("<svg", f'<svg role="img" aria-label="{escape(said)}"', 1))
