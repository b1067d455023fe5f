"""A slow auditor that goes step by step and was written from the definitions alone."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from reprise.audit import KEYS, measure


def percentile(values, share):
    values = sorted(values)
    place = (len(values) - 1) * share
    below = math.floor(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (values[above] - values[below]) * (place - below)


def literal_audit(tape):
    """All figures of an audit, and the lists behind them, from plain dictionaries."""
    label = tape.labels.tolist()
    memory = dict(enumerate(tape.initial.tolist()))
    known, ever = set(), set()
    waiting = {}  # class -> [steps since the visit, largest resident count since, insertions since], while resident
    unserved = {}  # resident class -> [draws since visit or arrival, largest count, insertions, whether by arrival]
    first, cut = [], []  # (class, draws, bound)
    visited_at = {}  # class -> step of last visit
    visits, present, pairs = Counter(), Counter(), Counter()
    gaps, wall, bounds = [], [], []
    left_memory = most = batches = 0
    for step in range(len(tape)):
        if memory or known:
            resident = {label[example] for example in memory.values()}
            came, left = resident - known, known - resident
            known = resident
            left_memory += len(left)
            most = max(most, len(resident))
            ever |= resident
            batch = set()
            for draw in tape.replay[step].tolist():
                batch |= {label[example] for example in draw if example != -1}
            excluded = {c for at, _, c in tape.excluded.tolist() if at == step} & resident
            skipped = excluded - batch
            present.update(resident - skipped)
            for c in left:
                waiting.pop(c, None)
                cut.append((c, *waited(unserved.pop(c), tape.replay_size)))
            for record in unserved.values():
                record[1] = max(record[1], len(resident))
                record[2] += len(came)
            for c in came:
                unserved[c] = [0, len(resident), 0, True]
            for c, record in unserved.items():
                record[0] += c not in skipped
            for c, record in waiting.items():
                record[0] += c not in skipped
                record[1] = max(record[1], len(resident))
                record[2] += len(came)
            for c in batch:
                if c in waiting:
                    since, largest, inserted = waiting[c]
                    gaps.append((c, since))
                    bounds.append((c, math.ceil((2 * largest - 1 + inserted) / tape.replay_size)))
                if c in visited_at:
                    wall.append((c, step - visited_at[c]))
                if unserved[c][3]:
                    first.append((c, *waited(unserved[c], tape.replay_size)))
                unserved[c] = [0, len(resident), 0, False]
                waiting[c] = [0, len(resident), 0]
                visited_at[c] = step
            visits.update(batch)
            pairs.update(combinations(sorted(batch), 2))
            batches += bool(batch)
        moved = [row for row in tape.moved.tolist() if row[0] == step]
        for place, (example, slot) in enumerate([*zip(tape.incoming[step], tape.written[step], strict=True), (-1, -1)]):
            for _, _, target, source in [row for row in moved if row[1] == place]:
                memory.pop(target, None)
                if source in memory:
                    memory[target] = memory.pop(source)
            if slot != -1:
                memory[int(slot)] = int(example)
    still = [(c, *waited(record, tape.replay_size)) for c, record in unserved.items()]
    lengths = [gap for _, gap in gaps]
    total = sum(pairs.values())
    possible = math.comb(most, 2)
    entropy = -sum(n / total * math.log(n / total) for n in pairs.values()) if total else None
    exposure = {c: visits[c] / present[c] for c in ever if present[c]}
    stored = Counter(label[example] for example in memory.values())
    figures = {
        "steps": len(tape),
        "mean": sum(lengths) / len(lengths) if lengths else None,
        "p50": percentile(lengths, 0.50) if lengths else None,
        "p95": percentile(lengths, 0.95) if lengths else None,
        "p99": percentile(lengths, 0.99) if lengths else None,
        "max": max(lengths, default=None),
        "wall_max": max((gap for _, gap in wall), default=None),
        "violations": sum(gap > bound for (_, gap), (_, bound) in zip(gaps, bounds, strict=True)),
        "deactivations": left_memory,
        "pair_coverage": len(pairs) / possible if possible else None,
        "pair_entropy": entropy / math.log(possible) if total and possible > 1 else None,
        "exposure_min": min(exposure.values(), default=None),
        "exposure_max": max(exposure.values(), default=None),
        "first_max": max((draws for _, draws, _ in first), default=None),
        "open_max": max((draws for _, draws, _ in still), default=None),
        "cut_max": max((draws for _, draws, _ in cut), default=0),
        "never": sum(c not in visited_at for c in known),
        "overdue": sum(draws > bound for _, draws, bound in first)
        + sum(draws + 1 > bound for _, draws, bound in [*still, *cut]),
    }
    more = {
        "first": sorted(first, key=lambda wait: wait[0]),
        "open": sorted(still),
        "cut": sorted(cut, key=lambda wait: wait[0]),
        "present": present.total(),
        "gaps": sorted(gaps, key=lambda pair: pair[0]),
        "bounds": sorted(bounds, key=lambda pair: pair[0]),
        "wall": sorted(wall, key=lambda pair: pair[0]),
        "exposure": {c: exposure.get(c, 0.0) for c in ever},
        "pairs": pairs,
        "class_max": most,
        "occupancy_spread": max(stored.values()) / min(stored.values()) if stored else None,
        "distinct_per_batch": sum(visits.values()) / batches if batches else None,
    }
    return figures, more


def waited(record, size):
    """Draws, and how many a randomised pass allows: once round the deck after an arrival, twice after a visit."""
    draws, largest, inserted, arrival = record
    return draws, math.ceil((inserted + (largest if arrival else 2 * largest - 1)) / size)


def same(found, expected):
    """Equal up to rounding, or both None."""
    return (
        found is expected if None in (found, expected) else math.isclose(found, expected, rel_tol=1e-12, abs_tol=1e-12)
    )


def agree(tape):
    audit = measure(tape)
    figures, more = literal_audit(tape)
    assert tuple(audit.to_dict()) == KEYS == tuple(figures)
    for key, value in audit.to_dict().items():
        assert same(value, figures[key]), key
        assert type(value) is type(figures[key]), key

    classes = audit.classes.tolist()
    assert classes == sorted(more["exposure"])
    assert dict(zip(classes, audit.exposure.tolist(), strict=True)) == pytest.approx(more["exposure"])
    gap_classes = audit.gap_classes.tolist()
    assert list(zip(gap_classes, audit.gaps.tolist(), strict=True)) == more["gaps"]
    assert list(zip(gap_classes, audit.bounds.tolist(), strict=True)) == more["bounds"]
    assert audit.wall_gaps.tolist() == [gap for _, gap in more["wall"]]
    for kind in ("first", "open", "cut"):
        waits = getattr(audit, kind)
        found = zip(waits.classes.tolist(), waits.lengths.tolist(), waits.bounds.tolist(), strict=True)
        assert list(found) == more[kind], kind
    # Every draw that found a class resident is in one wait.
    assert (
        sum(
            int(lengths.sum())
            for lengths in (audit.gaps, *(waits.lengths for waits in (audit.first, audit.open, audit.cut)))
        )
        == more["present"]
    )
    longest = [figures[key] or 0 for key in ("max", "first_max", "open_max", "cut_max")]
    assert audit.longest == (max(longest) if more["present"] else None)
    assert audit.class_max == more["class_max"]
    assert same(audit.occupancy_spread, more["occupancy_spread"])
    assert same(audit.distinct_per_batch, more["distinct_per_batch"])

    matrix = audit.pairs()
    assert (matrix == matrix.T).all()
    met = {(classes[i], classes[j]): int(matrix[i, j]) for i, j in zip(*np.nonzero(np.triu(matrix)), strict=True)}
    assert met == dict(more["pairs"])
    return audit
