"""The project as a whole: what importing it costs, and whether what it shows people runs."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from programs import Programs
from shown import SHOWN

import reprise

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))
PAGES = [
    page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if "```python\n" in page.read_text(encoding="utf-8") and page not in SHOWN  # those are run with their output
]
ROOMS = ("src", "docs", "examples", "benchmarks")
# Extras of integrations, each with what it must bring.
LIBRARIES = {"avalanche": "avalanche", "huggingface": "transformers", "lightning": "lightning", "torchrl": "torchrl"}
# Of the examples that take long, a part of the work: every line is run, and no figure is looked at.
LESS = {
    "04_replay_buffer": {"SEEDS = range(3)": "SEEDS = range(1)"},
    "06_text_domains": {"range(5)": "range(2)", "= 400, 16, 8, 4, 200": "= 40, 16, 8, 4, 200"},
}
HEAVY = ("torch", "matplotlib", "rich", "tyro", "PIL", "scipy", "safetensors")


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def run(*arguments: str, cwd: Path = ROOT, errors: str = "error") -> str:
    """Run Python with every warning an error, and return what it printed."""
    command = [sys.executable, "-W", errors, *arguments]
    environment = {**os.environ, "MPLBACKEND": "agg"}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_import_brings_numpy_only() -> None:
    loaded = run("-c", "import sys, reprise; print(*sorted({name.split('.')[0] for name in sys.modules}))").split()
    assert "numpy" in loaded
    assert not set(loaded) & set(HEAVY)


def test_memory_works_where_nothing_but_numpy_is_installed() -> None:
    script = f"""
import sys
sys.modules.update(dict.fromkeys({HEAVY!r}))  # None in sys.modules makes the import fail
import numpy as np, reprise
memory = reprise.Memory(capacity=4, seed=0)
memory.store(np.array([0, 1, 2]))
print(sorted(memory.draw(3).labels.tolist()))
"""
    assert run("-c", script) == "[0, 1, 2]\n"


def test_import_is_quick() -> None:
    # Processor time of the whole command, so that busy neighbours do not count.
    seconds = [float(run("-c", "import reprise, time; print(time.process_time())")) for _ in range(3)]
    assert min(seconds) < 0.5


def test_version_is_said_once() -> None:
    declared = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert declared is not None
    assert reprise.__version__ == declared.group(1)
    assert f"## [{reprise.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_files_stay_short() -> None:
    files = [file for room in ("src", "tests", "examples", "benchmarks") for file in (ROOT / room).rglob("*.py")]
    lengths = {name(file): file.read_bytes().count(b"\n") for file in files}
    assert "src/reprise/__init__.py" in lengths
    assert {file: lines for file, lines in lengths.items() if lines > 400} == {}


def test_what_is_said_of_installing_holds_for_a_clone() -> None:
    """The package is on no index: it is asked for as `.`, and with extras that exist."""
    declared = (ROOT / "pyproject.toml").read_text(encoding="utf-8").split("[project.optional-dependencies]")[1]
    extras = set(re.findall(r"^(\w+) = \[", declared.split("[project.scripts]")[0], re.MULTILINE))
    files = [*ROOT.glob("*.md"), *(file for room in ROOMS for file in (ROOT / room).rglob("*.*"))]
    texts = {name(file): file.read_text(encoding="utf-8") for file in files if file.suffix in (".md", ".py")}
    del texts["CHANGELOG.md"]
    assert [file for file, text in texts.items() if re.search(r"install[^\n]*reprise-cl", text)] == []
    asked = [one for text in texts.values() for one in re.findall(r"pip install '\.\[([\w,]+)\]'", text)]
    assert {"train", "plot", "vit"} <= {extra for one in asked for extra in one.split(",")} <= extras


def warnings_in(text: str) -> str:
    """Which warnings are errors: all, or our own where a library is used that has its own; skip where it is missing."""
    extra = re.search(r"the extra `(\w+)`", text)
    if extra is None or extra.group(1) not in LIBRARIES:
        return "error"
    if importlib.util.find_spec(LIBRARIES[extra.group(1)]) is None:
        pytest.skip(f"needs the extra {extra.group(1)!r}: make integrations")
    return "error:::__main__"


def run_program(file: Path, text: str, cwd: Path, programs: Programs) -> None:
    """Run a file with the warnings that its text asks for."""
    errors = warnings_in(text)
    if errors == "error":
        programs.run(file, cwd)
    else:
        run(str(file), cwd=cwd, errors=errors)


@pytest.mark.parametrize("example", EXAMPLES, ids=name)
def test_example_runs(example: Path, tmp_path: Path, programs: Programs) -> None:
    """All of it, but where it is listed above with less to do."""
    text = example.read_text(encoding="utf-8")
    for whole, less in LESS.get(example.stem, {}).items():
        assert text.count(whole) == 1, f"{whole} is not in {example.name}"
        text = text.replace(whole, less)
    script = tmp_path / example.name
    script.write_text(text, encoding="utf-8")
    run_program(script, text, tmp_path, programs)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_code_on_page_runs(page: Path, tmp_path: Path, programs: Programs) -> None:
    """Run a page's blocks marked `python` in order, as one program of its own; a traceback names the page's lines."""
    text = page.read_text(encoding="utf-8")
    program = ""
    for block in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        program += "\n" * (text.count("\n", 0, block.start(1)) - program.count("\n")) + block.group(1)
    script = tmp_path / f"page_{page.stem}.py"  # a page may be named after what it imports
    script.write_text(program, encoding="utf-8")
    run_program(script, text, tmp_path, programs)
