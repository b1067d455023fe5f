"""Where a library is not installed, its module says what is missing and how to get it."""

from __future__ import annotations

import importlib
import sys

import pytest

from reprise.core.extras import NotInstalled


@pytest.mark.parametrize(
    ("library", "module", "package"),
    [
        ("avalanche", "avalanche", "avalanche-lib"),
        ("torchrl", "torchrl", "torchrl"),
        ("tensordict", "torchrl", "torchrl"),
    ],
)
def test_a_missing_library_is_named(library: str, module: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="needs torch")
    for name in [one for one in sys.modules if one.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)  # None makes the import fail
    monkeypatch.delitem(sys.modules, f"reprise.integrations.{module}", raising=False)
    with pytest.raises(NotInstalled, match=rf"needs {package}, which is not installed; the extra '{module}' brings it"):
        importlib.import_module(f"reprise.integrations.{module}")
