"""An extension of Griffe, which reads docstrings for the site: examples in them are shown as code."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", re.MULTILINE)


class DoctestBlocks(griffe.Extension):
    """Puts examples, from `>>>` to the next empty line, into blocks of code."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
