"""The pages: their links, what they must describe, the output and the pictures they show."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import types
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import pytest
from programs import Programs
from scripts import load_script
from shown import SHOWN

from reprise.audit import KEYS, theory
from reprise.core import registry
from reprise.track.values import ALWAYS, GAPS, TESTS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
LINKING = [*PAGES, *(ROOT / one for one in ("CONTRIBUTING.md", "results/README.md", "benchmarks/README.md"))]
CODE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def run(*command: str, cwd: Path) -> str:
    """Run a command with this Python's packages, and return what it printed."""
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8", "PYTHONWARNINGS": "error"}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, encoding="utf-8", timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    seen: dict[str, int] = {}
    found = set()
    for heading in re.findall(r"^#+ (.+)$", CODE.sub("", read(page)), re.MULTILINE):
        anchor = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        found.add(anchor + (f"-{seen[anchor]}" if anchor in seen else ""))
        seen[anchor] = seen.get(anchor, 0) + 1
    return found


def broken_links(page: Path) -> list[str]:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", CODE.sub("", read(page))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", LINKING, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A head\n[a](#a-head) [b](#another) [c](page.md) [d](none.md) [e](https://example.org)\n")
    assert broken_links(page) == ["#another", "none.md"]


def test_every_page_is_in_the_index() -> None:
    listed = {(DOCS / link).resolve() for link in re.findall(r"\]\(([^)#]+)", read(DOCS / "index.md"))}
    pages = {page for page in DOCS.glob("*.md") if page.name != "index.md"}
    assert pages <= listed
    assert set((ROOT / "examples").glob("[0-9]*.py")) <= listed


def ours(kind: str) -> list[str]:
    """The specs of the library itself: pages and tests may have registered more in this process."""
    return [key for key, policy in registry.registered(kind).items() if policy.__module__.startswith("reprise.")]


@pytest.mark.parametrize(
    ("page", "kinds"), [("schedules.md", ("schedule", "retrieval")), ("storage.md", ("storage",))], ids=lambda x: str(x)
)
def test_every_policy_has_its_section(page: str, kinds: tuple[str, ...]) -> None:
    sections = set(re.findall(r"^##+ `([^`]+)`", read(DOCS / page), re.MULTILINE))
    names = [spec for kind in kinds for spec in ours(kind)]
    expected = {form for form in registry.forms(*kinds) if re.split(r"[:\[]", form)[0] in names}
    assert sections == expected


def test_every_figure_and_every_theory_function_is_defined_once() -> None:
    rows = re.findall(r"^\| `([a-z_0-9]+)(?:\([^|]*)?` \|", read(DOCS / "audit.md"), re.MULTILINE)
    assert [row for row in rows if row in KEYS] == list(KEYS)
    assert sorted(row for row in rows if row in theory.__all__) == sorted(theory.__all__)


def test_every_value_that_is_logged_is_defined_once() -> None:
    table = read(DOCS / "tracking.md").split("## What is logged")[1].split("\n## ")[0]
    first = [row.split(" | ")[0] for row in re.findall(r"^\| (`.+)", table, re.MULTILINE)]
    by_task = [f"task_accuracy/{readout}_1" for readout in ("ema", "live")]
    assert re.findall("`([^`]+)`", " ".join(first)) == [*ALWAYS, *GAPS, *TESTS, *by_task]


# A page's blocks marked `python` are run in order, as one program. A block marked `text` follows one of them at once
# and shows what it prints.
MARK = "⁂ end of block ⁂"


@pytest.mark.parametrize("page", [page for page in SHOWN if "```python" in read(page)], ids=name)
def test_output_on_page_is_what_its_code_prints(page: Path, tmp_path: Path, programs: Programs) -> None:
    text = read(page)
    blocks = list(CODE.finditer(text))
    code = [block for block in blocks if block.group(1) == "python"]
    shown = {
        before.start(): after.group(2)
        for before, after in pairwise(blocks)
        if before.group(1) == "python" and after.group(1) == "text" and not text[before.end() : after.start()].strip()
    }
    assert len(shown) == sum(block.group(1) == "text" for block in blocks), "a text block must follow a python block"
    if page.stem == "findings":  # it is of the records that are shipped
        shutil.copytree(ROOT / "results", tmp_path / "results")
    program = tmp_path / "page.py"
    program.write_text(f"\nprint({MARK!r})\n".join(block.group(2) for block in code), encoding="utf-8")
    printed = programs.run(program, tmp_path).split(MARK + "\n")
    assert printed == [shown.get(block.start(), "") for block in code]


COMMANDS = [
    line
    for page in SHOWN
    for block in CODE.finditer(read(page))
    if block.group(1) == "sh"
    for line in block.group(2).split("\n")
    if line
]


@pytest.mark.parametrize("command", COMMANDS)
def test_command_on_page_runs(command: str, tmp_path: Path) -> None:
    assert command.startswith("reprise audit ")
    once = shlex.split(re.sub(r"--seeds \d+", "--seeds 1", command))[1:]
    report = json.loads(run(sys.executable, "-m", "reprise", *once, "--json", "-", cwd=tmp_path))
    assert [row["retrieval"] for row in report] == once[once.index("--retrieval") + 1].split(",")
    assert all(set(KEYS) <= set(row) and set(KEYS) <= set(row["per_seed"][0]) for row in report)


@pytest.fixture(scope="module")
def make_pictures() -> types.ModuleType:
    return load_script(DOCS / "make_pictures.py")


BY_HAND = {"glyphs.png", "demo.png", "architecture.svg", "report.png", "report-phone.png"}


@pytest.fixture(scope="module")
def hashes() -> dict[str, str]:
    lines = (line.split("  ") for line in read(DOCS / "pictures" / "data.sha256").splitlines())
    return {picture: digest for digest, picture in lines}


def test_pictures_are_there_and_small(make_pictures: types.ModuleType, hashes: dict[str, str]) -> None:
    assert list(hashes) == list(make_pictures.PICTURES)
    files = {f"{key}.{ending}" for key, entry in make_pictures.PICTURES.items() for ending in entry[-1]}
    folder = DOCS / "pictures"
    assert {file.name for file in folder.iterdir()} == {*files, *BY_HAND, "data.sha256"}
    assert all(1_000 < file.stat().st_size < 200_000 for file in folder.glob("*.png"))
    shown = {Path(link).name for page in SHOWN for link in re.findall(r"\]\((pictures/[^)]+)\)", read(page))}
    assert shown - BY_HAND == files


@pytest.mark.parametrize("picture", ["schedules", "cooccurrence", "storage"])
def test_picture_shows_what_the_library_does_today(
    picture: str, make_pictures: types.ModuleType, hashes: dict[str, str]
) -> None:
    collect = make_pictures.PICTURES[picture][0]
    assert make_pictures.digest(collect()) == hashes[picture], (
        "run python docs/make_pictures.py and look at the pictures"
    )
