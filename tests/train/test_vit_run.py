"""A vision transformer of timm through the whole of training."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

from reprise.data import from_arrays
from reprise.train import Images, Run, train

pytestmark = pytest.mark.skipif(find_spec("timm") is None, reason="timm is not installed: make vit runs this with it")


@pytest.mark.parametrize("learner", ["er-ace", "der++"])
def test_a_transformer_trains_and_resumes(learner: str, tmp_path) -> None:
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 8)
    pixels = random.integers(0, 256, (32, 160, 160, 3), dtype=np.uint8)
    images = Images(from_arrays(pixels, labels), from_arrays(pixels[::4], labels[::4], split="test"))
    config = Run.of(dataset="tiny", backbone="test_vit", learner=learner, tasks=2, batch=8, buffer=8, replay=4)
    whole = train(config, images)

    class Stop(Exception):
        pass

    def stop(_, trained) -> None:
        if trained.step == 3:
            raise Stop

    with pytest.raises(Stop):
        train(config, images, checkpoints=tmp_path, checkpoint_every=1, watch=stop)
    again = train(config, images, checkpoints=tmp_path)
    assert again["timings"]["steps"] in (1, 2)  # it did not begin anew
    for record in (whole, again):
        for apart in ("provenance", "timings", "checksum"):
            del record[apart]
    assert again == whole
    assert whole["stream"]["steps"] == 4
