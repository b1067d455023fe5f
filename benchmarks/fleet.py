"""What a step of training costs: a loop as commonly written, the plain loop, captured runs, and many at once.

    python benchmarks/fleet.py [--quick] [--device cpu|cuda] [--seconds S] [--json FILE] [--markdown FILE]

`reprise bench` is the same without --markdown. Figures of one run only are comparable.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import torch
from rich.console import Console

from reprise.bench import as_markdown, as_tables, measure, write_page


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a few steps at small sizes: does it run at all?")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seconds", type=float, default=60, help="what is not begun by then is skipped")
    parser.add_argument("--json", metavar="FILE", help="write all figures as JSON; - is standard output")
    parser.add_argument(
        "--markdown", metavar="FILE", help="write the tables as Markdown, between the marks of a page that has them"
    )
    arguments = parser.parse_args()
    if torch.device(arguments.device).type == "cuda" and not torch.cuda.is_available():
        parser.error(f"--device {arguments.device}: torch finds no such device here; --device cpu does without")

    for option, file in (("--json", arguments.json), ("--markdown", arguments.markdown)):
        if file and not Path(file).parent.is_dir():
            parser.error(f"{option}: there is no folder for {file!r}")

    report = measure(
        arguments.device,
        quick=arguments.quick,
        seconds=arguments.seconds,
        tell=lambda line: print(line, file=sys.stderr, flush=True),
    )
    text = json.dumps(report.to_dict(), indent=1)
    if arguments.json == "-":
        print(text)
    elif arguments.json:
        Path(arguments.json).write_text(text + "\n", encoding="utf-8")
    if arguments.markdown:
        write_page(Path(arguments.markdown), as_markdown(report))
    console = Console(stderr=arguments.json == "-", width=None if sys.stdout.isatty() else 180, highlight=False)
    console.print(as_tables(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
