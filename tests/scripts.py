"""Scripts of the project that belong to no package, as modules."""

from __future__ import annotations

import importlib.util
import types
from pathlib import Path


def load_script(path: Path) -> types.ModuleType:
    """The script as a module; what it does only when called as a program is not done."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
