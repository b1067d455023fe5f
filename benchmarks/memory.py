"""What the replay memory costs: one command, one table, every figure beside its floor.

    python benchmarks/memory.py [--quick] [--only PART ...] [--json FILE] [--markdown FILE] [--check]

Figures of one run only are comparable: ours and the floor are timed in turn, and the ratio of a row is the median
over rounds.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import _peers
import _planning
import _scaling
import _steps
from _rows import Row, environment, markdown, table
from rich.console import Console

PARTS: dict[str, Callable[[bool], Iterator[Row]]] = {
    "step": _steps.rows,
    "scaling": _scaling.rows,
    "planning": _planning.rows,
    "peers": _peers.rows,
}

MARKS = ("<!-- figures -->", "<!-- end of figures -->")


def write_page(page: Path, figures: str) -> None:
    """Put the figures between a page's marks, or make them the page."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    head, mark, tail = text.partition(MARKS[0])
    if mark:
        figures = f"{head}{MARKS[0]}\n{figures}{MARKS[1]}{tail.partition(MARKS[1])[2]}"
    page.write_text(figures, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a few seconds at small sizes: does it run at all?")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="these parts alone")
    parser.add_argument("--json", metavar="FILE", help="write rows and machine as JSON; - is standard output")
    parser.add_argument(
        "--markdown", metavar="FILE", help="write the table as Markdown, between the marks of a page that has them"
    )
    parser.add_argument("--check", action="store_true", help="exit with status 1 if a limit is broken")
    arguments = parser.parse_args()

    console = Console(stderr=arguments.json == "-", width=None if sys.stdout.isatty() else 180)
    rows: list[Row] = []
    with console.status("measuring") as status:
        for part in arguments.only:
            for row in PARTS[part](arguments.quick):
                rows.append(row)
                status.update(f"measured {row.part}: {row.what}")
    facts = environment()
    console.print(table(rows))
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    machine = f"{facts['machine']}, {facts['cores']} cores, one thread; {versions}."
    console.print(machine)

    if arguments.json:
        text = json.dumps({"environment": facts, "rows": [row.to_dict() for row in rows]}, indent=1)
        if arguments.json == "-":
            print(text)
        else:
            Path(arguments.json).write_text(text + "\n", encoding="utf-8")
    if arguments.markdown:
        write_page(Path(arguments.markdown), f"{markdown(rows)}\n\n{machine}\n")
    broken = [row for row in rows if row.within is False]
    for row in broken:
        console.print(f"[red]over the limit:[/red] {row.part}: {row.what}")
    return 1 if broken and arguments.check else 0


if __name__ == "__main__":
    sys.exit(main())
