"""What several tests of lanes share."""

from __future__ import annotations

import pytest
from train.tinyruns import Thin

from reprise import nets


@pytest.fixture
def own_norm(monkeypatch):
    """Networks that have BatchNorm and are not stacked."""
    monkeypatch.setattr(nets, "build", lambda *_, classes, head, seed, **__: Thin(classes, head, seed, batchnorm=True))
