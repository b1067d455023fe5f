"""Build the documentation site into site/: `make docs`, or `python tools/make_site.py`.

The pages of docs/ link to files beside that folder, such as ../results/README.md. So the pages are first laid out in
build/pages, together with every file that they lead to, and links are written for that place: Markdown files become
pages, source files pages that show them, folders pages that list them, and all else is copied. The first use of a term
on a page becomes a link to the glossary. Zensical then builds the site, and stops at a link that leads nowhere.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import quote, unquote

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
GLOSSARY = DOCS / "glossary.md"

FENCE = re.compile(r"^( *)(```+|~~~+)[^\n]*\n.*?^\1\2[ \t]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
HREF = re.compile(r'(href=")([^"#:?]+)(")')
SHOWN = {".py": "python", ".toml": "toml", ".cff": "yaml", "": "text"}  # files shown as pages, by their endings
NOT_PROSE = re.compile(  # headings, tables, deeper lists, entries of the reference; code, links, tags, addresses
    r"^(?:#|\||    |:::|>|!).*$|`[^`]*`|!?\[(?:`[^`]*`|[^\]])*\]\([^)]*\)|<[^>]*>|https?://\S+", re.MULTILINE
)

# How the terms of the glossary stand in a sentence, where they are not verbs or common words. A group marks the words
# that become the link. A term without a pattern is never linked by itself.
_SOME = r"\b(?:[Aa]n?|[Tt]he|[Ee]very|[Oo]ne|[Ee]ach|[Tt]wo|[Ss]everal|[Mm]any|its|whose|of) "
TERMS: dict[str, str | None] = {
    "step": None,
    "slot": r"\bslots?\b",
    "draw": None,
    "key": None,
    "storage": r"\b[Ss]torages?\b",
    "retrieval": r"\b[Rr]etrievals?\b",
    "schedule": r"\b[Ss]chedules?\b",
    "policy": r"\b[Pp]olic(?:y|ies)\b",
    "spec": r"\bspecs?\b",
    "resident": r"\b(?:resident class(?:es)?|[Rr]esidency)\b",
    "occupancy": r"\b[Oo]ccupancy\b",
    "churn": r"\b[Cc]hurn\b",
    "b": r"\b(b) (?:examples|are|replay slots)\b",
    "C": r"\b(C) classes\b",
    "C_max": r"\bC_max\b",
    "I": r"\b(I) (?:the number|the classes)\b",
    "pass": r"\b(?:[Rr]andomised[ -]pass(?:es)?|shuffled pass(?:es)?)\b",
    "deck": r"\bdecks?\b",
    "visit": r"\bvisits\b",
    "gap law": r"\b[Gg]ap laws?\b",
    "gap": r"\b(?:[Mm]ean |longest )?gaps?\b",
    "wait": r"\b(?:[Ll]ongest waits?|[Oo]pen waits?|[Ww]aits(?= (?:of|that|are|past|beyond)))\b",
    "bound": r"\b(?:the |its |proven )(bounds?)\b",
    "violation": r"\bviolations?\b",
    "tape": r"\b[Tt]apes?\b",
    "audit": r"\b[Aa]udits?\b",
    "co-occurrence": r"\b[Cc]o-occurrence\b",
    "exposure": r"\b[Ee]xposure\b",
    "stream": r"(?<!random )\b(?:label )?[Ss]treams?\b(?! of (?:its|their|numbers))",
    "task": r"\btask boundar(?:y|ies)\b|\btasks\b",
    "long tail": r"\b[Ll]ong tail\b|\blong-tailed\b",
    "learner": r"\b[Ll]earners?\b",
    "mask": r"\b(?:the|no|without a) (mask)\b(?= (?:is|of|the)|,)",
    "read-out": r"\b[Rr]ead-outs?\b",
    "tracker": r"\b[Tt]rackers?\b",
    "run": _SOME + r"(runs?)\b",
    "identity": r"\bidentit(?:y|ies)\b",
    "record": _SOME + r"(records?)\b",
    "store": _SOME + r"(stores?)\b(?! a )",
    "claim": r"\bclaims\b",
    "seed pairing": r"\bseed by seed\b|\bpaired by seed\b|\bpair by pair\b",
    "arm": r"\barms?\b",
    "cell": r"\bcells?\b",
    "study": r"\b[Ss]tud(?:y|ies)\b",
    "campaign": r"\b[Cc]ampaigns?\b",
    "contrast": r"\b[Cc]ontrasts?\b",
    "Holm's correction": r"\bHolm's correction\b",
    "executor": r"\b[Ee]xecutors?\b",
    "fleet": r"\bfleet\b",
    "lane": r"\blanes?\b",
}


def site_path(path: Path) -> Path:
    """Where a file of the repository lies in the site, as a path below build/pages.

    >>> site_path(DOCS / "tour.md").as_posix(), site_path(ROOT / "results" / "README.md").as_posix()
    ('tour.md', 'results/README.md')
    >>> site_path(ROOT / "examples" / "01_own_loop.py").as_posix(), site_path(ROOT / "examples" / "plugins").as_posix()
    ('examples/01_own_loop.py.md', 'examples/plugins/index.md')
    """
    inside = path.relative_to(DOCS) if path.is_relative_to(DOCS) else path.relative_to(ROOT)
    if path.is_dir():
        return inside / "index.md"
    if path.suffix == ".html":  # a page of its own; the Markdown file beside it has its name in the site
        return inside.with_suffix(".page.html")
    return inside.with_name(inside.name + ".md") if path.suffix in SHOWN else inside


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """The text of a page with everything changed that is not a block of code."""
    done, at = [], 0
    for block in FENCE.finditer(text):
        done += [change(text[at : block.start()]), block.group()]
        at = block.end()
    return "".join([*done, change(text[at:])])


class Layout:
    """Lays pages out: `add` writes a file's page, and afterwards `pages` does the same with all that it leads to."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.waiting: list[Path] = []
        self.done: set[Path] = set()

    def add(self, path: Path) -> None:
        if path not in self.done:
            self.done.add(path)
            self.waiting.append(path)

    def pages(self) -> None:
        while self.waiting:
            path = self.waiting.pop()
            place = self.target / site_path(path)
            place.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                place.write_text(self.folder(path), encoding="utf-8")
            elif path.suffix == ".md":
                place.write_text(self.page(path), encoding="utf-8")
            elif path.suffix in SHOWN:
                name = path.relative_to(ROOT).as_posix()
                source = path.read_text(encoding="utf-8").rstrip("\n")
                place.write_text(f"# {name}\n\n````{SHOWN[path.suffix]}\n{source}\n````\n", encoding="utf-8")
            elif path.suffix == ".html":
                html = path.read_text(encoding="utf-8")
                place.write_text(HREF.sub(partial(self.rewritten_href, path), html), encoding="utf-8")
            else:
                shutil.copyfile(path, place)

    def page(self, path: Path) -> str:
        text = path.read_text(encoding="utf-8")
        if path.is_relative_to(DOCS) and path != GLOSSARY:
            text = with_terms(text, self.link(path, GLOSSARY), own_terms(path))
        return outside_code(text, lambda part: LINK.sub(partial(self.rewritten, path), part))

    def rewritten(self, page: Path, link: re.Match[str]) -> str:
        before, address, after = link.groups()
        where, hash_sign, anchor = address.partition("#")
        if not where or re.match(r"[a-z]+:", where):
            return link.group()
        target = (page.parent / unquote(where)).resolve()
        if not target.exists():
            return link.group()  # Zensical says so
        self.add(target)
        return f"{before}{self.link(page, target)}{hash_sign}{anchor}{after}"

    def rewritten_href(self, page: Path, href: re.Match[str]) -> str:
        target = (page.parent / unquote(href[2])).resolve()
        if not target.is_file():
            return href.group()
        self.add(target)
        link = self.link(page, target)
        return f"{href[1]}{link.removesuffix('.md') + '.html' if target.suffix == '.md' else link}{href[3]}"

    @staticmethod
    def link(page: Path, target: Path) -> str:
        return quote(os.path.relpath(site_path(target), site_path(page).parent).replace(os.sep, "/"), safe="/+.-_")

    def folder(self, path: Path) -> str:
        files = [file for file in sorted(path.iterdir()) if not file.name.startswith((".", "__"))]
        for file in files:
            self.add(file)
        lines = [f"- [{file.name}]({site_path(file).relative_to(site_path(path).parent).as_posix()})" for file in files]
        return "\n".join([f"# {path.relative_to(ROOT).as_posix()}", "", *lines, ""])


OTHER_MEANING = {
    "clusters.md": {"claim"},
    "command_line.md": {"audit"},
    "fleet.md": {"slot", "stream"},
    "loaders.md": {"slot"},
    "ocm.md": {"run"},
}
"""Pages on which a word is first used for something else."""


def own_terms(page: Path) -> set[str]:
    """The terms that are not linked on this page: those whose entry leads to it, as they are defined there."""
    found = {*OTHER_MEANING.get(page.name, ())}
    for entry in re.split(r"^### ", GLOSSARY.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        links = {(DOCS / link.partition("#")[0]).resolve() for _, link, _ in LINK.findall(entry)}
        if page in links:
            found.add(entry.split("\n", 1)[0].strip())
    return found


def with_terms(text: str, glossary: str, own: set[str]) -> str:
    """The text with the first use of every term linked: in sentences, not in code, links, headings or tables."""
    left = {term: re.compile(pattern) for term, pattern in TERMS.items() if pattern and term not in own}

    def change(part: str) -> str:
        for term, pattern in [*left.items()]:
            hidden = [mark.span() for mark in NOT_PROSE.finditer(part)]
            for use in pattern.finditer(part):
                start, end = use.span(pattern.groups)
                if not any(a < end and start < b for a, b in hidden):
                    part = f"{part[:start]}[{part[start:end]}]({glossary}#{anchor(term)}){part[end:]}"
                    del left[term]
                    break
        return part

    return outside_code(text, change)


def anchor(heading: str) -> str:
    """The anchor of a heading, as GitHub and the site make it.

    >>> anchor("C_max"), anchor("read-out"), anchor("`der++` and more")
    ('c_max', 'read-out', 'der-and-more')
    """
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def lay_out(target: Path) -> None:
    """Write the pages of the site, anew."""
    shutil.rmtree(target, ignore_errors=True)
    layout = Layout(target)
    for file in sorted(DOCS.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts and file.suffix != ".py":
            layout.add(file)
    layout.pages()


def build(root: Path) -> int:
    """Lay the pages out below this folder, which has zensical.toml, src and tools, and build its site; the status."""
    lay_out(root / "build" / "pages")
    shutil.rmtree(root / "site", ignore_errors=True)
    return subprocess.run([sys.executable, "-m", "zensical", "build", "--clean", "--strict"], cwd=root).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the documentation site into site/.")
    parser.add_argument("--pages", action="store_true", help="lay the pages out in build/pages, and build nothing")
    parser.add_argument("--into", type=Path, metavar="DIR", help="build in this folder, not in the repository")
    options = parser.parse_args()
    root: Path = ROOT
    if options.into is not None:
        root = options.into.resolve()
        root.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / "zensical.toml", root / "zensical.toml")
        for name in ("src", "tools"):
            if not (root / name).exists():
                (root / name).symlink_to(ROOT / name)
    if options.pages:
        lay_out(root / "build" / "pages")
        return 0
    status = build(root)
    if status == 0:
        print(f"The site is in {root / 'site'}: open site/index.html.")
    return status


if __name__ == "__main__":
    sys.exit(main())
