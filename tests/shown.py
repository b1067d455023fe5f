"""The pages whose code is run with its output compared with what they show."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
SHOWN = [
    DOCS / f"{name}.md"
    for name in (
        *(
            "index",
            "tour",
            "schedules",
            "storage",
            "streams",
            "audit",
            "policies",
            "extending",
            "networks",
            "replay_buffer",
            "loaders",
            "metrics",
            "training",
            "tracking",
            "store",
            "findings",
        ),
        *(f"learners/{one}" for one in ("er", "er-ace", "der", "der++", "refresh", "ocm", "mir", "references")),
    )
]
