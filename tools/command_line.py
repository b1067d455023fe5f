"""Write docs/command_line.md anew from the help of every command: `python tools/command_line.py`.

With `--check` nothing is written; the exit status is 1 if the page is not what the commands say today.
"""

from __future__ import annotations

import difflib
import io
import os
import re
import sys
import textwrap
from contextlib import redirect_stdout
from pathlib import Path

from reprise.cli.tree import COMMANDS, parse

PAGE = Path(__file__).resolve().parents[1] / "docs" / "command_line.md"
MARK = "<!-- made by tools/command_line.py; do not edit below -->"
ROW = re.compile(r"^│ (.*?) +│$")


def help_of(words: tuple[str, ...]) -> str:
    """What `reprise WORDS --help` prints on a wide terminal without colours."""
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")  # it has frames where the encoding has their signs
    before = {name: os.environ.get(name) for name in ("COLUMNS", "NO_COLOR", "TERM")}
    os.environ.update(COLUMNS="250", NO_COLOR="1", TERM="dumb")
    try:
        with redirect_stdout(printed):
            parse([*words, "--help"])
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    printed.seek(0)
    return re.sub(r"\x1b\[[0-9;]*m", "", printed.read())


def entries(text: str) -> list[tuple[str, str]]:
    """The arguments in the frames of a help, each with what it says."""
    found: list[tuple[str, str]] = []
    for line in text.splitlines():
        row = ROW.match(line)
        if row is None:
            continue
        if row[1].startswith("──"):  # what was above is about the frame
            found.pop()
            continue
        if row[1].startswith(" "):  # it goes on from the line above
            name, said = found[-1]
            found[-1] = (name, f"{said} {row[1].strip()}".strip())
        else:
            option, _, says = re.sub(r" {2,}", "\0", row[1], count=1).partition("\0")
            found.append((option, says))
    return [entry for entry in found if not entry[0].startswith("-h, --help")]


def section(words: tuple[str, ...]) -> list[str]:
    text = help_of(words)
    usage, _, rest = text.partition("\n\n")
    about = [" ".join(part.split()) for part in rest.split("╭")[0].strip().split("\n\n") if part.strip()]
    sentences = [part for part in about if not part.startswith("Example")]
    examples = [part.split(": ", 1) for part in about if part.startswith("Example")]
    lines = [f"## reprise {' '.join(words)}", "", "```", " ".join(usage.split()).removeprefix("usage: "), "```", ""]
    for sentence in sentences:
        lines += [*textwrap.wrap(escaped(sentence), 120, break_on_hyphens=False), ""]
    if examples:
        for head, command in examples:
            lines.append(f"- {head}: `{command}`")
        lines.append("")
    rows = entries(text)
    if rows:
        lines += ["| argument | says |", "|---|---|"]
        lines += [f"| {code(name)} | {escaped(says)} |" for name, says in rows]
        lines.append("")
    return lines


def code(name: str) -> str:
    """A name as code within a table; Markdown readers disagree about a bar between backticks."""
    return f"<code>{name.replace('|', '&#124;').replace('<', '&lt;')}</code>" if "|" in name else f"`{name}`"


def escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def made() -> str:
    """The part of the page that is made: a list of all commands, and a section for each."""
    lines = [MARK, "", "| command | does |", "|---|---|"]
    for words, (_, _, about) in COMMANDS.items():
        anchor = "-".join(["reprise", *words])
        lines.append(f"| [`reprise {' '.join(words)}`](#{anchor}) | {about} |")
    lines.append("")
    for words in COMMANDS:
        lines += section(words)
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    there = PAGE.read_text(encoding="utf-8")
    page = there.partition(MARK)[0] + made()
    if sys.argv[1:] == ["--check"]:
        sys.stdout.writelines(difflib.unified_diff(there.splitlines(True), page.splitlines(True), "page", "help", n=0))
        return int(page != there)
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
