"""What a run is: every wrong value is named in a sentence, and what is left open is filled in."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict, replace

import numpy as np
import pytest

from reprise.learners import LEARNERS, find_learner
from reprise.learners.learner import PASSES
from reprise.nets.heads import HEADS
from reprise.runs import DataSettings, LearnerSettings, NetworkSettings, Run, StillSettings, settings
from reprise.runs.run import SECTIONS, flat_names

WRONG = [
    # setting, value, what the sentence must name beside the value
    ("seed", -1, ["seed", "0 or more"]),
    ("seed", 1.5, ["seed", "whole number"]),
    ("seed", True, ["seed", "whole number"]),
    ("imbalance", 0.5, ["imbalance", "1"]),
    ("imbalance", "ten", ["imbalance", "number"]),
    ("imbalance", float("nan"), ["imbalance", "finite"]),
    ("imbalance_seed", -1, ["imbalance seed", "0 or more"]),
    ("imbalance_seed", 1.5, ["imbalance seed", "whole number"]),
    ("learner", "er_ace", ["learner", "did you mean 'er-ace'", "none"]),
    ("hyper", {"masks": "present"}, ["masks", "mask"]),
    ("hyper", {"mask": 3}, ["mask", "word"]),
    ("storage", "reservoire", ["reservoire", "reservoir"]),
    ("retrieval", "rprr", ["rprr", "rpr"]),
    ("retrieval", "mirr:4", ["mirr:4", "mir:N"]),
    ("buffer", 0, ["buffer", "1 or more"]),
    ("buffer", 2.5, ["buffer", "whole number"]),
    ("replay", -1, ["replay", "0 or more"]),
    ("replay", "8", ["replay", "whole number"]),
    ("width", 0, ["width", "1 or more"]),
    ("head", "cosin", ["head", "cosine", "linear"]),
    ("pretrained", "yes", ["pretrained", "True or False"]),
    ("bn_momentum", -0.1, ["bn_momentum", "0 or more"]),
    ("bn_momentum", 1.5, ["bn_momentum", "1 or less"]),
    ("batch", 0, ["batch", "1 or more"]),
    ("tasks", 0, ["tasks", "1 or more"]),
    ("order", "alphabetical", ["order", "label", "permuted"]),
    ("disjoint", 1.5, ["disjoint", "1"]),
    ("blur", -0.1, ["blur", "0"]),
    ("validation", 1, ["validation", "True or False"]),
    ("size", 0, ["size", "1 or more"]),
    ("holdout", 0.0, ["holdout", "between 0 and 1"]),
    ("holdout", 1, ["holdout", "between 0 and 1"]),
    ("per_class", 0, ["per class", "1 or more"]),
    ("test_per_class", -2, ["test per class", "1 or more"]),
    ("optimizer", "SGD", ["optimizer", "sgd", "adam"]),
    ("lr", -0.1, ["lr", "0 or more"]),
    ("lr", float("inf"), ["lr", "finite"]),
    ("lr", "fast", ["lr", "number"]),
    ("momentum", -0.5, ["momentum", "0 or more"]),
    ("weight_decay", -1, ["weight_decay", "0 or more"]),
    ("augment", "flip", ["augment", "crop+flip", "none"]),
    ("passes", "both", ["passes", "separate", "joint"]),
    ("precision", "fp16", ["precision", "fp32", "bf16"]),
    ("ema", 0, ["ema", "1 or more"]),
    ("evaluate_every", -1, ["evaluate every", "0 or more"]),
    ("draws", -1, ["draws", "0 or more"]),
    ("draws", 2, ["'er-ace'", "1 replay batches"]),
    ("virtual_loss", "masked", ["virtual_loss", "plain", "own"]),
    ("scoring", "test", ["scoring", "train", "eval"]),
]


@pytest.mark.parametrize(("name", "value", "words"), WRONG, ids=[f"{name}={value}" for name, value, _ in WRONG])
def test_a_wrong_value_is_a_sentence_that_names_it(name, value, words):
    with pytest.raises((ValueError, TypeError)) as found:
        Run.of(**{name: value})
    said = str(found.value)
    shown = next(iter(value)) if isinstance(value, dict) else value
    for word in [*words, str(shown)]:
        assert word in said, said
    assert len(said.split()) > 4


def test_the_table_names_every_setting_that_can_be_wrong():
    free = {"dataset", "backbone"}  # whatever data sets and networks there are: known when they are looked for
    assert {name for name, _, _ in WRONG} | free == {"seed", *flat_names()}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"optimizer": "adam", "momentum": 0.9}, ["momentum", "0.9", "adam"]),
        ({"learner": "none", "retrieval": "mir:5"}, ["'none'", "0 replay", "'mir:5'"]),
        ({"learner": "joint", "retrieval": "mir:5"}, ["'joint'", "'mir:5'"]),
        ({"retrieval": "mir:5", "lr": 0}, ["lr", "above 0", "'mir:5'"]),
        ({"tasks": 1, "disjoint": 0.5, "blur": 0.5}, ["blur", "tasks is 1"]),
        ({"imbalance_seed": 3}, ["imbalance_seed", "a balanced stream has none", "got 3"]),
        ({"imbalance_seed": 0, "imbalance": 1.0}, ["imbalance_seed", "a balanced stream has none", "got 0"]),
        ({"learner": "er", "hyper": {"mask": "present"}}, ["'er'", "mask", "has none"]),
        ({"hyper": {"mask": "foo"}}, ["a mask is one of", "'foo'"]),
        ({"learner": "der", "hyper": {"alpha": -1.0}}, ["alpha must be 0 or more"]),
        ({"learner": "ocm", "hyper": {"rotations": 3}}, ["rotations must be one of"]),
        ({"backbone": "vit_tiny", "width": 3}, ["width is for 'resnet18'", "got 3"]),
        ({"learner": "der++", "draws": 1}, ["'der++'", "2 replay batches", "got 1"]),
        ({"classes": 10, "steps": 50}, ["a learner needs images that arrive"]),
        ({"learner": None, "classes": 10}, ["classes and steps go together"]),
        ({"learner": None, "classes": 10, "steps": 50, "tasks": 2}, ["has no stream settings", "tasks"]),
        ({"learner": None, "classes": 10, "steps": 50, "buffer": 25}, ["10 classes", "25 examples evenly"]),
        ({"learner": None, "width": 8}, ["trains nothing", "network"]),
        ({"learner": None, "retrieval": "mir:5"}, ["'mir:5'", "asks a model"]),
        ({"learner": None, "per_class": 5}, ["an audit is of all labels", "got per_class=5"]),
        ({"learner": None, "holdout": 0.2}, ["an audit is of all labels", "got holdout=0.2"]),
    ],
)
def test_settings_that_do_not_go_together_are_named(given, words):
    with pytest.raises(ValueError) as found:
        Run.of(**given)
    assert all(word in str(found.value) for word in words), str(found.value)


def test_an_unknown_name_is_an_error_that_lists_those_there_are():
    for made in (lambda: Run.of(retreival="rpr"), lambda: Run.of().replace(retreival="rpr")):
        with pytest.raises(TypeError, match=r"a run has no setting 'retreival'; it has seed, dataset, .*retrieval"):
            made()
    with pytest.raises(ValueError, match=r"no section 'memories'; it has seed, data, stream, memory"):
        Run.from_dict({"memories": {}})
    with pytest.raises(ValueError, match=r"'memory' has no setting 'size'; it has storage, retrieval"):
        Run.from_dict({"memory": {"size": 3}})
    with pytest.raises(TypeError, match="section 'memory' must hold settings, got 5"):
        Run.from_dict({"memory": 5})


def test_a_setting_of_a_section_that_a_run_has_not_is_an_error():
    audit, still = Run.of(learner=None), Run.of(learner=None, classes=10, steps=50)
    for run, name, section in ((audit, "lr", "descent"), (audit, "learner", "learner"), (still, "dataset", "data")):
        with pytest.raises(ValueError, match=f"this run has no {section} settings, got"):
            run.replace(**{name: Run.of().flat()[name]})


def test_a_run_is_of_a_stream_or_of_a_memory_that_stands_still():
    for parts in ({"data": None}, {"stream": StillSettings()}):
        with pytest.raises(ValueError, match="give one of the two"):
            Run(**parts)


def test_every_setting_has_a_name_of_its_own_beside_the_others():
    names = [setting for section in SECTIONS.values() for setting, _ in settings.options(section)]
    assert len(set(names)) == len(names)
    assert {"seed", *names} == set(Run.of().flat())


def test_the_words_of_settings_are_those_of_the_rooms_below():
    """The description needs no torch, so it says them itself."""
    assert set(settings.HEADS) == set(HEADS)
    assert settings.PASSES == PASSES


@pytest.mark.parametrize("name", LEARNERS)
def test_what_is_left_open_is_the_learners_own(name):
    run = Run.of(learner=name)
    kind = find_learner(name)
    own = asdict(kind.descent)
    assert {setting: getattr(run.descent, setting) for setting in own} == own
    assert None not in own.values()
    assert (run.draws, run.memory.draws) == (kind.draws, kind.draws)
    assert run.replace(seed=4).seed == 4
    assert run.replace(seed=4).replace(seed=0) == run
    assert Run(learner=LearnerSettings(name)) == run


@pytest.mark.parametrize("before", LEARNERS)
@pytest.mark.parametrize("after", LEARNERS)
def test_another_learner_brings_what_is_its_own(before, after):
    assert Run.of(learner=before).replace(learner=after) == Run.of(learner=after)
    given = {"lr": 0.5, "seed": 3, "width": 8}
    assert Run.of(learner=before, **given).replace(learner=after) == Run.of(learner=after, **given)


def test_another_data_set_brings_its_augmentation_unless_one_was_chosen():
    assert Run.of().replace(dataset="cifar10") == Run.of(dataset="cifar10")
    assert Run.of(augment="none").replace(dataset="cifar10").data.augment == "none"


def test_what_is_given_is_kept_though_it_be_nought():
    run = Run.of(lr=0.5, momentum=0.0, weight_decay=0.25, optimizer="sgd", augment="none")
    assert asdict(run.descent) == {
        "optimizer": "sgd", "lr": 0.5, "momentum": 0.0, "weight_decay": 0.25, "precision": "fp32"
    }  # fmt: skip
    assert run.data.augment == "none"
    assert Run.of(lr=0.0).descent.lr == 0


def test_glyphs_are_not_flipped_and_pictures_are():
    assert Run.of().data.augment == "crop"
    assert Run.of(dataset="cifar10").data.augment == "crop+flip"
    assert Run.of(learner=None, dataset="cifar10").data.augment is None  # nothing is shown to anybody


def test_a_run_cannot_be_changed_through_its_hyperparameters():
    given = {"mask": "present"}
    run = Run.of(hyper=given)
    identity = run.identity({})
    given["mask"] = "none"
    with pytest.raises(TypeError):
        run.learner.hyper["mask"] = "none"
    run.to_dict()["learner"]["hyper"]["mask"] = "none"
    assert run.identity({}) == identity


def test_a_run_may_be_made_of_its_parts():
    parts = Run(1, DataSettings("cifar10"), learner=LearnerSettings("er"), network=NetworkSettings(width=8))
    assert parts == Run.of(seed=1, dataset="cifar10", learner="er", width=8)
    assert replace(parts, seed=2) == parts.replace(seed=2)


def test_a_balanced_memory_holds_fifty_of_a_class_unless_told():
    assert Run.of(learner=None, classes=20, steps=9).memory.buffer == 1000
    assert Run.of(learner=None, classes=20, steps=9, buffer=np.int64(40)).memory.buffer == 40


def test_a_run_is_named_in_a_few_words():
    run = Run.of(dataset="cifar100", imbalance=10, learner="der++", storage="cbrs", retrieval="iid", buffer=500, seed=4)
    assert run.name == "der++ on cifar100-lt10, cbrs 500, iid 8, seed 4"
    assert Run.of(dataset="/data/birds", learner="none").name == "none on birds-balanced, seed 0"
    assert Run.of(learner=None, retrieval="fixed").name == "glyphs-balanced, reservoir 5120, fixed 8, seed 0"
    assert Run.of(learner=None, classes=1, steps=5).name == "one class that stays, reservoir 50, rpr 8, seed 0"


AUDIT = """
import sys
from reprise.runs import Run, fingerprints
from reprise.execute.one import audit
record = audit(Run.of(learner=None, dataset="cifar10", imbalance=10, retrieval="iid", buffer=200))
assert record["identity"] == Run.from_dict(record["run"]).identity(record["data"])
audit(Run.of(learner=None, classes=10, steps=50))
print("torch" in sys.modules, record["audit"]["steps"])
"""


def test_audits_need_no_torch():
    done = subprocess.run([sys.executable, "-W", "error", "-c", AUDIT], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    torch, steps = done.stdout.split()
    assert torch == "False"
    assert int(steps) > 300


WITHOUT_TORCH = """
import sys

class NoTorch:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")

sys.meta_path.insert(0, NoTorch)
from reprise.cli import main
from reprise.runs import Run

try:
    Run.of()
except ModuleNotFoundError as error:
    print(error)
sys.exit(main(["study", "show", "demo"]))
"""


def test_a_run_that_trains_says_what_it_lacks_without_torch():
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, timeout=100)
    assert done.returncode == 2
    said = "training needs torch, which is not installed"
    assert said in done.stdout
    assert done.stderr.startswith(f"reprise: {said}")
