"""`reprise demo`: the shortest way to a page of pictures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from reprise.cli.audit import Audit
from reprise.cli.errors import WrongRequest


@dataclass(frozen=True)
class Demo:
    """Audit four retrievals on one long-tailed stream, and draw a page to open in a browser.

    Example: reprise demo --out demo
    """

    out: Annotated[str, arg(metavar="DIR")] = "demo"
    """Folder for the page; it is made if it is not there."""

    def run(self) -> int:
        page = Path(self.out) / "audit.html"
        try:
            page.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WrongRequest(f"--out: cannot make the folder {self.out!r}: {error.strerror}") from error
        audit = Audit(stream="cifar100-lt10", retrieval="uniform,iid,fixed,rpr", seeds=3, plot=str(page))
        status = audit.run()
        print(f"\nOpen this page in a browser: {page.resolve()}")
        return status
