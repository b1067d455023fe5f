"""Modules of other people: found through entry points and by name, loaded once, and never in anybody's way."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from processes import PYTHON

from reprise.core import plugins, registry
from reprise.core.plugins import load_modules, loaded_modules
from reprise.core.registry import Registered, did_you_mean, find, register, registered
from reprise.memory import as_storage

MINE = """
from reprise.core.registry import register
from reprise.memory import Fifo

@register("storage", {name!r})
class Mine(Fifo):
    pass
"""


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever a test registers and loads is forgotten afterwards."""
    monkeypatch.setattr(registry, "_REGISTRY", registry._REGISTRY.copy())
    monkeypatch.setattr(plugins, "_MODULES", {})
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MINE.format(name="mine"))
    return path


def offer(monkeypatch: pytest.MonkeyPatch, **modules: str) -> list[str]:
    """Let these modules be what installed packages name; gives the groups that were asked for."""
    asked = []

    def entry_points(*, group: str) -> list[EntryPoint]:
        asked.append(group)
        return [EntryPoint(name, value, group) for name, value in modules.items()]

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
    monkeypatch.setattr(plugins, "_searched", False)
    return asked


def test_an_entry_point_is_loaded_when_an_unknown_name_is_asked_for(
    mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(mine.parent)
    asked = offer(monkeypatch, one="mine")
    as_storage("fifo")
    assert asked == []
    assert as_storage("mine").spec == "mine"
    assert asked == ["reprise.plugins"]
    with pytest.raises(ValueError, match="unknown storage 'nine': did you mean 'mine'"):
        as_storage("nine")
    assert asked == ["reprise.plugins"]


def test_names_are_listed_with_those_of_entry_points(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(mine.parent)
    offer(monkeypatch, one="mine")
    view = Registered("storage")
    assert "mine" in view
    assert list(view) == list(registered("storage"))
    assert len(view) == len(list(view))
    assert view["mine"] is registered("storage")["mine"]


def test_a_broken_entry_point_is_named_and_the_others_are_loaded(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(mine.parent)
    (mine.parent / "broken.py").write_text("raise OSError('no disk')")
    offer(monkeypatch, first="broken", second="mine")
    with pytest.warns(UserWarning, match=r"the plugin 'first' .* left out, for 'broken' cannot .*: OSError: no disk"):
        assert "mine" in registered("storage")
    assert "mine" in registered("storage")  # and it is said once


def test_a_module_is_loaded_once_by_whatever_name(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(mine.parent)
    (mine.parent / "dotted.py").write_text(MINE.format(name="dotted"))
    monkeypatch.syspath_prepend(mine.parent)
    load_modules(["mine.py", "dotted"])
    loaded = find("storage", "mine")
    load_modules([str(mine), "./mine.py", "dotted"])
    assert loaded_modules() == (str(mine), "dotted")
    assert find("storage", "mine") is loaded
    assert as_storage("dotted").spec == "dotted"


def test_another_process_knows_what_this_one_has_loaded(mine: Path) -> None:
    load_modules([str(mine)])
    sent = pickle.dumps(find("storage", "mine")())
    script = (
        "import pickle, sys; from reprise.core.plugins import load_modules; load_modules(sys.argv[1:]);"
        "print(pickle.load(sys.stdin.buffer).spec)"
    )
    command = [sys.executable, "-c", script, *loaded_modules()]
    assert subprocess.run(command, input=sent, capture_output=True, env=PYTHON, timeout=120).stdout == b"mine\n"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("nowhere.py", None, "there is no file 'nowhere.py' to import"),
        ("folder/", None, "there is no file 'folder/' to import"),
        ("not_there_at_all", None, "'not_there_at_all' cannot be imported: ModuleNotFoundError: No module"),
        ("wrong.py", "x = = 1", "'wrong.py' cannot be imported: SyntaxError"),
        ("leaves.py", "raise SystemExit", "'leaves.py' cannot be imported: SystemExit"),
        ("./notes.txt", "hello", "'./notes.txt' cannot be imported: ImportError: it is not a .py file"),
    ],
)
def test_what_cannot_be_imported_is_said(
    name: str, content: str | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path(name).write_text(content)
    with pytest.raises(ValueError) as caught:
        load_modules([name])
    assert str(caught.value).startswith(said)
    assert loaded_modules() == ()


def test_nobody_takes_a_name_that_is_taken(mine: Path) -> None:
    load_modules([str(mine)])
    other = mine.with_name("other.py")
    other.write_text(MINE.format(name="mine").replace("class Mine", "class Other"))
    with pytest.raises(ValueError, match=r"other.*the storage 'mine' is already Mine"):
        load_modules([str(other)])

    class Fifo:
        pass

    Fifo.__qualname__ = "Fifo"  # as the library's own, which it must not replace
    with pytest.raises(ValueError, match="the storage 'fifo' is already Fifo"):
        register("storage", "fifo")(Fifo)
    with pytest.raises(ValueError, match="an argument goes with a storage, schedule or retrieval, not with a learner"):
        register("learner", "mine", argument=int)


@pytest.mark.parametrize(
    ("name", "near"), [("er_ace", "er-ace"), ("DER", "der"), ("xyz", None), ("", None), (3, None), ("resnet", None)]
)
def test_only_a_near_name_is_proposed(name: object, near: str | None) -> None:
    assert did_you_mean(name, ["er", "er-ace", "der", "der++"]) == near
