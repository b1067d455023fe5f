"""All commands, and how they are read from the command line."""

from __future__ import annotations

import importlib
import io
import re
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, Union

import tyro

from reprise.cli.errors import WrongRequest
from reprise.core.registry import unknown


class Command(Protocol):
    """What every command can do."""

    def run(self) -> int: ...


# Words of a command, the module and class behind it, and what it is for.
COMMANDS: dict[tuple[str, ...], tuple[str, str, str]] = {
    ("audit",): ("audit", "Audit", "Plan replay sequences from labels alone and audit them."),
    ("train",): ("train", "Train", "Train learners under replay schedules, one run or many, and keep their records."),
    ("config",): ("config", "Config", "Print the description of a run, as train --config reads it."),
    ("study", "list"): ("study", "StudyList", "List the studies."),
    ("study", "show"): ("study", "StudyShow", "Show a study and the figures that the paper prints."),
    ("study", "plan"): ("study_status", "StudyTry", "Say how many runs a study takes, and how long they take here."),
    ("study", "run"): ("study", "StudyRun", "Run a study and put its figures beside the paper's."),
    ("study", "status"): ("study_status", "StudyStatus", "Show how far campaigns have come, from any terminal."),
    ("study", "report"): (
        "study_report",
        "StudyReport",
        "Write a finished study as a page, tables and pictures.",
    ),
    ("study", "pack"): ("study_pack", "StudyPack", "Pack the records of a store into small files, to be shipped."),
    ("study", "verify"): ("study_pack", "StudyVerify", "Plan recorded replay sequences again and compare them."),
    ("study", "index"): ("study_report", "StudyIndex", "Write a page over all campaigns of a store."),
    ("runs", "list"): ("runs", "RunsList", "List the runs of a store."),
    ("runs", "show"): ("runs", "RunsShow", "Show all that the record of a run says."),
    ("runs", "compare"): ("runs", "RunsCompare", "Compare two sets of runs pair by pair."),
    ("runs", "export"): ("runs", "RunsExport", "Write all runs of a store as a table."),
    ("demo",): ("demo", "Demo", "Train under two schedules, pair by pair, and draw a page that compares them."),
    ("bench",): ("bench", "Bench", "Measure how fast this machine trains, beside a loop as commonly written."),
    ("data", "list"): ("data", "DataList", "List the data sets."),
    ("data", "fetch"): ("data", "DataFetch", "Fetch a data set from its home, check and unpack it."),
    ("data", "check"): ("data", "DataCheck", "Read a data set and say whether it is whole."),
}
_ABOUT = """Reprise decides when a stored class returns.

Example: reprise audit --stream cifar100-lt10 --retrieval iid,fixed,rpr --seeds 3

Help on a command: reprise audit --help

With every command, --import MODULE loads learners, storages, networks, data sets or trackers of your own, from a module
or a .py file, several separated by commas: reprise train --import mine.py --learner mine

Version: reprise --version"""
# What a word that other words follow is for: in a line, and at the head of its own help.
_GROUPS: dict[str, tuple[str, str]] = {
    "study": (
        "List, show, run, report, pack and verify studies.",
        """A study is a named grid of runs that fills a table of the paper.

Example: reprise study run dyngaps --out out""",
    ),
    "runs": (
        "List, show, compare and export the runs of a store.",
        """A store is the folder that runs were made into.

Example: reprise runs compare store retrieval=rpr retrieval=iid""",
    ),
    "data": (
        "List, fetch and check data sets.",
        """Data sets lie in one folder; glyphs needs none.

Example: reprise data fetch cifar100 --data data""",
    ),
}


def parse(arguments: Sequence[str]) -> Command | None:
    """The command that these arguments name, or None when they asked for help and got it."""
    words: tuple[str, ...] = ()
    while words not in COMMANDS:
        rest = arguments[len(words) :]
        if rest and rest[0].startswith("-"):
            menu = _menu(words, lazy=rest[0] in ("-h", "--help"))
            return _read(menu, words, rest, _GROUPS[words[0]][1] if words else _ABOUT)
        words = (*words, _next_word(words, rest))
    return _read(_command(words), words, arguments[len(words) :], None)


def _next_word(words: tuple[str, ...], rest: Sequence[str]) -> str:
    known = list(dict.fromkeys(name[len(words)] for name in COMMANDS if name[: len(words)] == words))
    here = " ".join(["reprise", *words])
    if not rest:
        raise WrongRequest(f"a command is missing: {here} is followed by {', '.join(known)}; see {here} --help")
    if rest[0] not in known:
        raise WrongRequest(unknown("command", rest[0], known, lead=f"{here} is followed by"))
    return rest[0]


def _command(words: tuple[str, ...]) -> Any:
    module, name, _ = COMMANDS[words]
    return getattr(importlib.import_module(f"reprise.cli.{module}"), name)


@dataclass(frozen=True)
class _Named:
    """Stands for a command in a list of commands, so that the list is quick."""


def _menu(words: tuple[str, ...], *, lazy: bool) -> Any:
    """The commands below these words, as tyro lists them; when `lazy`, their names alone."""
    depth = len(words)
    entries: dict[str, Any] = {}
    for name, (_, _, about) in COMMANDS.items():
        if name[:depth] == words and name[depth] not in entries:
            below, group = name[: depth + 1], len(name) > depth + 1
            what = _GROUPS[name[depth]][0] if group else about
            form = _Named if lazy else _menu(below, lazy=False) if group else _command(name)
            entries[name[depth]] = Annotated[form, tyro.conf.subcommand(name[depth], description=what)]
    return Union[tuple(entries.values())]  # noqa: UP007 - made of a tuple


def _read(form: Any, words: tuple[str, ...], arguments: Sequence[str], about: str | None) -> Command | None:
    complaint = io.StringIO()
    try:
        with redirect_stderr(complaint):
            command: Command = tyro.cli(form, prog=" ".join(["reprise", *words]), description=about, args=arguments)
    except SystemExit as end:
        if end.code:
            raise WrongRequest(sentence(complaint.getvalue())) from None
        command = None  # type: ignore[assignment]
    sys.stderr.write(complaint.getvalue())  # warnings, if any
    return command


def sentence(box: str) -> str:
    """One sentence from the framed message with which tyro refuses arguments.

    >>> sentence('''╭─ Value error ─────────────────────────────────────────╮
    ... │ Error parsing --replay: invalid literal for int()      │
    ... │ with base 10: '2.5'                                    │
    ... │ ────────────────────────────────────────────────────── │
    ... │ For full helptext, see reprise audit --help            │
    ... ╰────────────────────────────────────────────────────────╯''')
    "--replay must be a whole number, got '2.5'; see reprise audit --help"
    """
    rows = [line.strip(" │|") for line in box.splitlines() if not re.match(r"\s*[╭╰+]", line)]
    parts = [" ".join(part.split()) for part in re.split(r"\n[─-]{3,}\n", "\n".join(rows))]
    if "╭" not in box and len(parts) > 1:
        parts = parts[1:]  # a frame of plain signs, with its title as the first part
    said = re.sub(r"^Error parsing ([^:]+): ", r"\1: ", parts[0]).rstrip(". ")
    said = re.sub(r": invalid literal for int\(\) with base 10: ", " must be a whole number, got ", said)
    said = re.sub(r"^Unrecognized options: ", "unknown options: ", said)
    said = re.sub(r"^Missing value for argument '([^']+)'.*", r"\1 needs a value", said)
    said = re.sub(r"^Missing from ([^:]+): (\S+) .*", r"\1 needs \2", said)
    said = re.sub(r": could not convert string to float: ", " must be a number, got ", said)
    for part in parts[1:]:
        if near := re.match(r"Perhaps you meant: (\S+)", part):
            said += f"; did you mean {near[1]}?"
        elif guide := re.search(r"(reprise[\w -]*--help)$", part):
            said += f" See {guide[1]}" if said.endswith("?") else f"; see {guide[1]}"
    return said[:1].lower() + said[1:] if said else "these arguments cannot be read; see reprise --help"
