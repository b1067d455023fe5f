"""What a step is fed: in pairs of arms, before anything is stored, from a tape or live, and never from the test set."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from train.tinyruns import ARMS, CLASSES, config, go_to, images, run_to, same, thin_networks, weights

import reprise
from reprise.train import Images, Training, steps, train
from reprise.train import state as state_module
from reprise.train.evaluate import correct_per_class


@pytest.fixture(autouse=True)
def thin():
    with thin_networks():
        yield


def fed(run):
    """Every step's input; the run is not trained, so only a planned feed can be asked."""
    return [run.feed.step(number) for number in range(run.steps)]


def slots_over_time(tape):
    """Per step, the example in each slot as the draw finds it."""
    held = np.full(tape.capacity, -1, np.int64)
    found = []
    for ids, slots in zip(tape.incoming, tape.written, strict=True):
        found.append(held.copy())
        for one, slot in zip(ids, slots, strict=True):
            if one >= 0 and slot >= 0:
                held[slot] = one
    return found


ARMS_OF_A_PAIR = [
    {"retrieval": "iid"},
    {"retrieval": "uniform", "replay": 7},
    {"retrieval": "rpr+pass", "learner": "er"},
    {"retrieval": "mir:6", "learner": "er"},
    {"learner": "none"},
    *({"learner": name, "hyper": arm["hyper"]} for name, arm in ARMS.items() if name in ("der++", "ocm")),
]


@pytest.mark.parametrize("other", ARMS_OF_A_PAIR, ids=str)
def test_arms_of_one_seed_are_pairs(other):
    one, two = Training(config(retrieval="rpr", seed=3), images()), Training(config(**{"seed": 3, **other}), images())
    assert same(dict(one.net.state_dict()), dict(two.net.state_dict()))
    assert torch.equal(one.feed.crops, two.feed.crops)
    np.testing.assert_array_equal(one.plan.stream.ids, two.plan.stream.ids)
    go_to(two)
    for mine, number in zip(fed(one), range(two.steps), strict=True):
        two.feed.seek(number)
        theirs = two.feed._arrived(number)
        assert torch.equal(mine.incoming.x, theirs.incoming.x)
        assert torch.equal(mine.incoming.y, theirs.incoming.y)
        assert torch.equal(mine.seen, theirs.seen)
    np.testing.assert_array_equal(one.feed.tape().written, two.feed.tape().written)


def test_another_seed_is_another_run_altogether():
    one, two = Training(config(seed=3), images()), Training(config(seed=4), images())
    assert one.feed.tape() != two.feed.tape()
    assert (one.feed.tape().written != two.feed.tape().written).any()
    assert not torch.equal(one.feed.crops, two.feed.crops)
    assert not torch.equal(one.net.conv1.weight, two.net.conv1.weight)


@pytest.mark.parametrize("settings", [{}, {"storage": "fifo"}, {"learner": "er", "retrieval": "mir:12"}], ids=str)
def test_what_returns_was_there_before_the_step(settings):
    run = run_to(config(**settings))
    tape = run.feed.tape()
    returned = 0
    for ids, slots, held in zip(tape.replay[:, 0], tape.slots[:, 0], slots_over_time(tape), strict=True):
        used = ids >= 0
        np.testing.assert_array_equal(used, slots >= 0)
        np.testing.assert_array_equal(held[slots[used]], ids[used])
        assert len(set(ids[used].tolist())) == used.sum()
        returned += int(used.sum())
    assert returned == 4 * 14  # in the first step there is nothing yet, and then there is enough


def test_a_step_is_told_what_is_present_and_what_has_been_seen():
    run = Training(config(), images())
    seen = set()
    for number, (step, ids) in enumerate(zip(fed(run), run.plan.stream, strict=True)):
        labels = images().train.labels[ids]
        seen |= set(labels.tolist())
        assert step.number == number
        assert step.ids.tolist() == step.incoming.ids.tolist() == ids.tolist()
        assert step.incoming.y.tolist() == labels.tolist()
        assert set(step.present.nonzero()[:, 0].tolist()) == set(labels.tolist())
        assert set(step.seen.nonzero()[:, 0].tolist()) == seen
        assert float(step.incoming.weight.sum()) == pytest.approx(1)
    assert seen == set(range(CLASSES))


def test_seeking_recalls_what_had_been_seen():
    run = Training(config(), images())
    expected = [step.seen for step in fed(run)]
    for number in (7, 0, 14):
        run.feed.seek(number)
        assert torch.equal(run.feed.step(number).seen, expected[number])


def test_a_live_feed_records_what_it_did():
    run = run_to(config(learner="er", retrieval="mir:12"))
    tape = run.feed.tape()
    found = reprise.audit.measure(tape)
    assert found.to_dict()["steps"] == run.steps == len(tape)
    planned = Training(config(learner="er", retrieval="uniform"), images()).feed.tape()
    np.testing.assert_array_equal(tape.incoming, planned.incoming)
    np.testing.assert_array_equal(tape.written, planned.written)
    np.testing.assert_array_equal(tape.labels, planned.labels)
    np.testing.assert_array_equal(tape.boundaries, planned.boundaries)
    assert (tape.replay != planned.replay).any()
    assert tape.facts == {**planned.facts, "retrieval": "mir:12"}
    np.testing.assert_array_equal(run.feed.memory.labels, tape.labels[run.feed.holder[: len(run.feed.memory)]])


def test_a_live_feed_scores_candidates_as_they_are_stored():
    asked = []
    run = Training(config(learner="er", retrieval="mir:12"), images())
    score = run.feed.score

    def spy(step, candidates):
        asked.append((step, candidates))
        return score(step, candidates)

    run.feed.score = spy
    go_to(run, 6)
    assert [step.number for step, _ in asked] == [1, 2, 3, 4, 5]
    for _, candidates in asked:
        raw = run.pixels.normalised(torch.from_numpy(images().train.images[candidates.ids.numpy()]))
        assert torch.equal(candidates.x, raw), "no crop, no flip: they would blur the choice"
    assert [len(candidates.x) for _, candidates in asked] == [8, 12, 12, 12, 12]


def test_live_retrieval_of_nothing_is_no_replay():
    nothing = run_to(config(learner="er", retrieval="mir:12", replay=0))
    assert same(weights(nothing), weights(run_to(config(learner="none"))))
    assert nothing.feed.tape().replay.shape == (15, 1, 0)


def test_none_draws_nothing():
    run = Training(config(learner="none", replay=4), images())
    assert not [step for step in fed(run) if step.replay]
    assert run.feed.tape().replay.size == 0
    assert train(config(learner="none"), images())["tape"] == run.feed.tape().hash


def test_joint_sees_every_task_early_and_the_same_examples():
    joint, usual = Training(config(learner="joint"), images()), Training(config(), images())
    assert sorted(joint.plan.stream.ids.tolist()) == sorted(usual.plan.stream.ids.tolist())
    early = {joint.plan.stream.task_of_class[label] for step in fed(joint)[:4] for label in step.incoming.y.tolist()}
    assert early == set(range(5))
    assert {
        usual.plan.stream.task_of_class[label] for step in fed(usual)[:3] for label in step.incoming.y.tolist()
    } == {0}
    assert [len(step.ids) for step in fed(joint)] == [len(step.ids) for step in fed(usual)]
    assert not [step for step in fed(joint) if step.replay]
    other = Training(config(learner="joint", seed=1), images())
    assert other.plan.stream.ids.tolist() != joint.plan.stream.ids.tolist()


class Untouchable:
    """A test set that nobody may look at."""

    def __getattr__(self, name):
        raise AssertionError(f"a validation run asked the test set for its {name}")

    def __len__(self):
        raise AssertionError("a validation run asked how long the test set is")


def test_a_validation_run_holds_out_and_never_touches_the_test_set(monkeypatch):
    asked = set()

    def spy(net, pixels, ids, classes, *more):
        asked.update(ids.tolist())
        return correct_per_class(net, pixels, ids, classes, *more)

    monkeypatch.setattr(state_module, "correct_per_class", spy)
    settings = config(validation=True)
    record = train(settings, Images(images().train, Untouchable()))
    run = Training(settings, Images(images().train, Untouchable()))
    heldout = set(run.plan.stream.heldout.tolist())
    assert asked == heldout
    assert len(heldout) == CLASSES
    tape = run.feed.tape()
    assert not heldout & {*tape.incoming.ravel().tolist(), *tape.replay.ravel().tolist()}
    assert record["split"] == "validation"
    assert record["evaluations"]["test_counts"] == [1] * CLASSES
    with pytest.raises(AssertionError, match="test set"):
        Training(config(), Images(images().train, Untouchable()))


def test_a_test_run_is_tested_on_the_test_set():
    wrong = replace(images().test, labels=(images().test.labels + 1) % CLASSES)
    right, shifted = (train(config(learner="joint"), Images(images().train, test)) for test in (images().test, wrong))
    assert right["split"] == "test"
    assert right["evaluations"]["accuracies"] != shifted["evaluations"]["accuracies"]
    assert right["final_loss"] == shifted["final_loss"]


def test_the_loop_stops_where_it_is_told_and_goes_on_there():
    run = Training(config(), images())
    for trained in steps(run):
        if trained.step == 4:
            break
    assert run.step == 4
    assert [trained.step for trained in steps(run)] == list(range(5, 16))
