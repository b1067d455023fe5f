"""What tests of commands share."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.pictures import make_pictures


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pictures(tmp_path_factory.mktemp("images") / "pictures")


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No terminal width, device or process group of this machine may show through."""
    for name in ("COLUMNS", "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("REPRISE_CACHE", str(tmp_path / "user-cache"))
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
