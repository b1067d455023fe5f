"""A training loop of one's own, with NumPy only: the same loop under two schedules, seed by seed.

Forty classes arrive four at a time, some ten times rarer than others, and every class drifts while the stream goes on.
A softmax regression takes one step per batch of ten, with four replayed examples. The loop keeps the examples in an
array of its own, one row per slot; the memory only says which rows to read and which to write.

Prints, for five seeds and for `iid` and `rpr`: the accuracy on all classes at the end of the stream, and the longest
that any stored class waited for replay. Both arms of a seed see the same stream, hold the same memory at every step
and start from the same weights, so their difference is the schedule's doing.

    python examples/01_own_loop.py
"""

from __future__ import annotations

import numpy as np

import reprise

CLASSES, FEATURES, PER_CLASS = 40, 24, 300
CAPACITY, BATCH, REPLAY, RATE = 400, 10, 4, 0.2
ARMS, SEEDS = ("iid", "rpr"), range(5)


class World:
    """Gaussian classes whose means move from where they were to where they will be."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.before, self.after = self.random.normal(0, 0.9, (2, CLASSES, FEATURES))

    def examples(self, labels: np.ndarray, time: float) -> np.ndarray:
        """One example per label, at a time from 0 to 1."""
        means = self.before[labels] + 0.7 * time * (self.after - self.before)[labels]
        return (means + self.random.normal(0, 1, means.shape)).astype(np.float32)


def train_step(weights: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The gradient of the mean cross-entropy of softmax(x · weights)."""
    logits = x @ weights
    chance = np.exp(logits - logits.max(1, keepdims=True))
    chance /= chance.sum(1, keepdims=True)
    chance[np.arange(len(y)), y] -= 1
    return x.T @ chance / len(y)


def run(retrieval: str, seed: int) -> tuple[float, int]:
    """Train once; the final accuracy in percent, and the longest wait of a stored class in steps."""
    world = World(seed)
    stream = reprise.streams.from_labels(np.repeat(np.arange(CLASSES), PER_CLASS), seed, imbalance=10, batch=BATCH)

    # Nothing below depends on the model, so the whole replay sequence is known before training.
    tape = reprise.plan(stream, reprise.Memory(CAPACITY, "reservoir", retrieval, seed), REPLAY)
    audit = reprise.audit.measure(tape)

    memory = reprise.Memory(CAPACITY, "reservoir", retrieval, seed)
    kept_x = np.zeros((CAPACITY, FEATURES), np.float32)  # row = slot
    weights = np.zeros((FEATURES, CLASSES), np.float32)
    for step, ids in enumerate(stream):
        y = stream.labels[ids]
        x = world.examples(y, step / len(stream))
        gradient = train_step(weights, x, y)
        if draw := memory.draw(REPLAY):  # falsy while nothing is stored
            gradient = gradient + train_step(weights, kept_x[draw.slots], draw.labels)
        weights -= RATE * gradient
        slots = memory.store(y)  # after the step: an example is never replayed in the step that brings it
        kept_x[slots[slots >= 0]] = x[slots >= 0]

        planned = tape.slots[step, 0]
        assert np.array_equal(draw.slots, planned[planned >= 0])  # the tape told the future

    test = np.repeat(np.arange(CLASSES), 50)
    guessed = (world.examples(test, 1.0) @ weights).argmax(axis=1)
    assert audit.longest is not None
    return 100 * float(np.mean(guessed == test)), audit.longest


def main() -> None:
    print("seed   " + "".join(f"{arm:>4}: accuracy  longest wait    " for arm in ARMS) + "rpr − iid")
    differences = []
    for seed in SEEDS:
        results = [run(arm, seed) for arm in ARMS]
        differences.append(results[1][0] - results[0][0])
        row = "".join(f"      {accuracy:7.1f}%  {wait:12}    " for accuracy, wait in results)
        print(f"{seed:4}   {row}{differences[-1]:+9.1f}")
    error = np.std(differences, ddof=1) / np.sqrt(len(differences))
    print(f"\nMean difference {np.mean(differences):+.1f} points, standard error {error:.1f}, {len(SEEDS)} pairs.")
    bound = reprise.audit.theory.churn_bound(CLASSES, 0, REPLAY)
    print(f"With {CLASSES} classes and {REPLAY} replayed a step, rpr promises waits of at most {bound} steps,")
    print(f"and one more for every {REPLAY} classes that enter the memory meanwhile. iid promises nothing.")


if __name__ == "__main__":
    main()
