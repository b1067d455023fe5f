"""The reference: every public name has an entry and a docstring, every entry exists; commands, options, completion."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
import shutil
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import reprise
from reprise.cli import main
from reprise.cli.tree import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"
ENTRIES = [
    (page.name, entry)
    for page in sorted(REFERENCE.glob("*.md"))
    for entry in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
]
# The places from which names are imported; all that they name is public.
PLACES = (
    "reprise",
    *(f"reprise.{room}" for room in ("memory", "checks", "streams", "audit", "audit.theory", "buffer", "loader")),
    *(f"reprise.{room}" for room in ("data", "nets", "learners", "runs", "train", "track", "execute")),
    *(f"reprise.{room}" for room in ("lab", "studies", "core")),
)


def resolve(path: str) -> Any:
    """What an entry names; of a module whose package is not installed here, the definition in its source."""
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if str(error.name).startswith("reprise"):
            raise
        source = ROOT.joinpath("src", *module.split(".")).with_suffix(".py").read_text(encoding="utf-8")
        (found,) = (one for one in ast.parse(source).body if getattr(one, "name", None) == name)
        return found


def names(place: str) -> list[str]:
    module = importlib.import_module(place)
    lazy = list(reprise._LAZY) if module is reprise else []
    return [name for name in [*module.__all__, *lazy] if not isinstance(getattr(module, name), ModuleType)]


def test_every_entry_exists_and_is_there_once() -> None:
    assert all(resolve(entry) is not None for _, entry in ENTRIES)
    assert [entry for entry, count in Counter(entry for _, entry in ENTRIES).items() if count > 1] == []


@pytest.mark.parametrize("place", PLACES)
def test_every_public_name_has_an_entry(place: str) -> None:
    shown = {id(resolve(entry)) for _, entry in ENTRIES}
    module = importlib.import_module(place)
    assert [name for name in names(place) if id(getattr(module, name)) not in shown] == [], (
        "a public name needs a line `::: place.name` on a page of docs/reference"
    )


def test_every_place_is_in_the_index_of_the_reference() -> None:
    index = (REFERENCE / "index.md").read_text(encoding="utf-8")
    assert [place for place in PLACES if f"`{place}`" not in index and place.count(".") == 1] == [
        "reprise.buffer",  # its names are those of reprise
        "reprise.loader",
        "reprise.studies",  # on the page of reprise.lab
    ]


def documented_constants(module: ModuleType) -> set[str]:
    """The names of a module whose assignment is followed by a docstring."""
    body = ast.parse(inspect.getsource(module)).body
    found = set()
    for statement, after in pairwise(body):
        said = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        target = statement.target if isinstance(statement, ast.AnnAssign) else None
        target = statement.targets[0] if isinstance(statement, ast.Assign) else target
        if said and isinstance(target, ast.Name):
            found.add(target.id)
    return found


def home(path: str) -> ModuleType:
    """The module in which a constant is assigned, found by the imports that lead there."""
    place, _, name = path.rpartition(".")
    module = importlib.import_module(place)
    for statement in ast.parse(inspect.getsource(module)).body:
        if isinstance(statement, ast.ImportFrom) and any(one.name == name for one in statement.names):
            return home(
                f"{importlib.util.resolve_name('.' * statement.level + (statement.module or ''), place)}.{name}"
            )
    return module


@pytest.mark.parametrize("entry", [entry for _, entry in ENTRIES])
def test_every_entry_has_a_docstring(entry: str) -> None:
    found = resolve(entry)
    if isinstance(found, ast.ClassDef | ast.FunctionDef):
        assert ast.get_docstring(found), f"{entry} has no docstring"
    elif inspect.isclass(found) or inspect.isfunction(found):
        assert vars(found).get("__doc__") if inspect.isclass(found) else found.__doc__, f"{entry} has no docstring"
    else:
        name = entry.rpartition(".")[2]
        assert name in documented_constants(home(entry)), f"{entry} has no docstring below its assignment"


def test_citation_names_the_version() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {reprise.__version__}\n" in citation
    title = re.findall(r'^    title: "(.+)"$', citation, re.MULTILINE)
    assert title[0] in " ".join((ROOT / "docs" / "cite.md").read_text(encoding="utf-8").split())


# Commands ---------------------------------------------------------------------------------------------------------


def test_page_of_the_command_line_is_what_the_commands_say() -> None:
    command = [sys.executable, "tools/command_line.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=120)
    assert done.returncode == 0, f"run python tools/command_line.py:\n{done.stdout}{done.stderr}"


def test_page_of_the_command_line_has_what_it_is_about() -> None:
    page = (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (reprise .+)$", page, re.MULTILINE) == [f"reprise {' '.join(one)}" for one in COMMANDS]
    train = page.split("\n## reprise train\n")[1].split("\n## ")[0]
    assert all(f"`{option}" in train or f">{option}" in train for option in ("--retrieval", "--seeds", "--device"))


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_knows_commands_and_options(shell: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["--tyro-print-completion", shell]) == 0
    script = capsys.readouterr().out
    words = {word for command in COMMANDS for word in command}
    assert words | {"retrieval", "half-width"} <= set(re.findall(r"[\w-]*\w", script.replace("--", " ")))
    if shell == "bash" and shutil.which("bash"):
        (tmp_path / "reprise").write_text(script, encoding="utf-8")
        ask = 'source ./reprise; COMP_WORDS=(reprise study ""); COMP_CWORD=2; _tyro_reprise; echo "${COMPREPLY[@]}"'
        done = subprocess.run(["bash", "-c", ask], cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=60)
        assert {name[1] for name in COMMANDS if name[0] == "study"} <= set(done.stdout.split()), done.stderr
