"""What the small forms of studies that train share: runs of seconds, on images drawn here."""

from __future__ import annotations

from typing import Any

SMALL: dict[str, Any] = {
    "dataset": "glyphs",
    "width": 2,
    "per_class": 20,
    "test_per_class": 4,
    "batch": 16,
    "buffer": 200,
    "replay": 4,
}
