"""The machine that a run is made on."""

from __future__ import annotations

import pytest
from train.tinyruns import config, images

from reprise.runs import Run
from reprise.train import Training


def test_a_gpu_that_is_not_there_is_a_sentence(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ValueError, match="device 'cuda' was asked for, but torch finds no GPU here"):
        Training(config(), images(), "cuda")


def test_a_device_of_no_known_name_is_a_sentence():
    with pytest.raises(ValueError, match="there is no device 'gpu'; 'cpu' and 'cuda' are known"):
        Training(config(), images(), "gpu")


def test_an_audit_is_not_trained():
    with pytest.raises(ValueError, match="without a learner there is nothing to train"):
        Training(Run.of(learner=None, dataset="tiny"), images())
