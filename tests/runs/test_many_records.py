"""A store of many records: each is checked as it is read, parts may be left out, and it costs little beside parsing."""

from __future__ import annotations

import gc
import json
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from reprise.core.files import Record, digest, sealed
from reprise.core.record_file import seal, text_of
from reprise.execute.one import audit
from reprise.runs import Run, Store
from reprise.runs.record import BULKY, EARLIER


@pytest.fixture(scope="module")
def one() -> Record:
    """The record of an audit of 100 classes, with as much as training adds."""
    record = audit(Run.of(learner=None, classes=100, steps=2000, replay=8))
    draw = random.Random(0)
    rows = [[draw.random() for _ in range(100)] for _ in range(10)]
    curve = [draw.random() for _ in range(200)]
    return {**record, "evaluations": {"ema": rows, "live": rows}, "curves": {"loss": curve, "accuracy": curve}}


def filled(folder: Path, one: Record, count: int) -> Store:
    (folder / "records").mkdir()
    for seed in range(count):
        run = {**one["run"], "seed": seed}
        record = seal({**one, "run": run, "identity": digest([run, one["data"]])[:24]})
        Store(folder).record_file(record["identity"]).write_bytes(text_of(record))
    return Store(folder)


def test_parts_may_be_left_out(tmp_path: Path, one: Record) -> None:
    store = filled(tmp_path, one, 3)
    whole, light = store.all_records(pytest.fail), store.all_records(pytest.fail, without=BULKY)
    assert sorted(record["run"]["seed"] for record in whole) == [0, 1, 2]
    assert light == [{key: value for key, value in record.items() if key not in BULKY} for record in whole]
    assert len(json.dumps(light)) < 0.5 * len(json.dumps(whole))
    assert gc.isenabled()


@pytest.mark.parametrize("without", [(), BULKY])
def test_a_flipped_byte_is_named_and_the_others_are_read(tmp_path: Path, one: Record, without: tuple[str, ...]) -> None:
    store, draw = filled(tmp_path, one, 2), random.Random(1)
    path, other = sorted(tmp_path.glob("records/*.json"))
    text = path.read_bytes()
    for _ in range(100):
        where = draw.randrange(len(text))
        hurt = text[:where] + bytes([text[where] ^ 1 << draw.randrange(8)]) + text[where + 1 :]
        if says_the_same(hurt, text):  # 1E-5 for 1e-5
            continue
        path.write_bytes(hurt)
        said: list[str] = []
        found = [record["identity"] for record in store.all_records(said.append, without=without)]
        assert found == [other.stem], where
        assert len(said) == 1
        assert f"The record {path} " in said[0]


def test_a_record_of_the_earlier_format_is_read(tmp_path: Path, one: Record) -> None:
    store = filled(tmp_path, one, 1)
    (record,) = store.records(pytest.fail)
    (path,) = tmp_path.glob("records/*.json")
    earlier = sealed({**{key: value for key, value in record.items() if key != "checksum"}, "format": EARLIER[0]})
    path.write_text(json.dumps(earlier, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert list(store.records(pytest.fail)) == [earlier]
    assert store.get(record["identity"], pytest.fail) == earlier


def test_reading_costs_little_beside_parsing(tmp_path: Path, one: Record) -> None:
    """Processor time, the least of five each, alternately; without the bulky parts it is less than parsing them."""
    store = filled(tmp_path, one, 40)
    raw = [path.read_bytes() for path in tmp_path.glob("records/*.json")]
    works: list[Callable[[], object]] = [
        lambda: [json.loads(text) for text in raw],
        store.all_records,
        lambda: store.all_records(without=BULKY),
    ]
    rounds = [[seconds(work) for work in works] for _ in range(5)]
    floor, whole, light = map(min, zip(*rounds, strict=True))
    assert whole < 1.8 * floor
    assert light < 0.8 * floor


def says_the_same(one: bytes, other: bytes) -> bool:
    try:
        return repr(json.loads(one)) == repr(json.loads(other))
    except ValueError:
        return False


def seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began
