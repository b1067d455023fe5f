"""Policies, learners, networks, data sets and trackers of others: modules that register them when they are imported.

An installed package names such a module under the entry point group `reprise.plugins`; it is imported when somebody
asks for a name that is not known, or for all names. `load_modules` imports modules and files by name, at once.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from reprise.core.errors import full_reason

GROUP = "reprise.plugins"
_MODULES: dict[str, None] = {}  # names and absolute paths, in the order in which they were loaded
_searched = False


def load_entry_points() -> None:
    """Import what installed packages offer, once; of what cannot be imported, a warning is given."""
    global _searched
    if _searched:
        return
    _searched = True  # at once: a plugin may itself ask for all names
    from importlib.metadata import entry_points

    for found in entry_points(group=GROUP):
        try:
            found.load()
        except (Exception, SystemExit) as error:
            warnings.warn(
                f"the plugin {found.name!r} of {GROUP} is left out, for {found.value!r} cannot be imported: "
                f"{full_reason(error)}",
                stacklevel=3,
            )


def load_modules(names: Iterable[str]) -> None:
    """Import these modules, each a dotted name or the path of a .py file; what was loaded before is passed over."""
    for name in names:
        path = _path(name)
        key = name if path is None else str(path)
        if key in _MODULES:
            continue
        if path is not None and not path.is_file():
            raise ValueError(f"there is no file {name!r} to import")
        try:
            if path is None:
                importlib.import_module(name)
            else:
                _run(path)
        except (Exception, SystemExit) as error:
            raise ValueError(f"{name!r} cannot be imported: {full_reason(error)}") from error
        _MODULES[key] = None


def load_file(path: str) -> ModuleType:
    """The module of a .py file, loaded as `load_modules` does."""
    load_modules([path])
    found = _path(path)
    assert found is not None
    return sys.modules[_name(found)]


def loaded_modules() -> tuple[str, ...]:
    """What `load_modules` has loaded, in order; given to it in another process, everything is registered there too."""
    return tuple(_MODULES)


def _path(name: str) -> Path | None:
    """The file that is meant, if it is one; its links are followed, so that each file is loaded once."""
    separators = [separator for separator in (os.sep, os.altsep) if separator]
    if not name.endswith(".py") and not any(separator in name for separator in separators):
        return None
    return Path(name).expanduser().resolve()


def _run(path: Path) -> None:
    """Import a file, under a name that is the same in every process, so that its classes can be sent to another."""
    name = _name(path)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError("it is not a .py file")
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def _name(path: Path) -> str:
    return f"reprise_plugin_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
