"""Packed records: each comes back as it was but for what was left out, and no damage passes unseen."""

from __future__ import annotations

import copy
import io
import json
import os
import pickle
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from processes import PYTHON
from records import audit_record, record, run_of

from reprise.core.extras import NotInstalled
from reprise.core.files import Record, digest, sealed
from reprise.core.record_file import lines_of, seal, text_from, text_of
from reprise.lab.table import as_columns
from reprise.runs import Store
from reprise.runs.packed import FOLDER, Packed, pack
from reprise.runs.record import BULKY, EARLIER, FORMAT

# A column's name is UTF-8, so parts have no lone surrogates in their names; what they say may have some.
names = st.text(st.characters(exclude_categories=["Cs"])).filter(lambda name: name not in RESERVED)
RESERVED = ("format", "checksum", "identity")
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@st.composite
def shelves(draw: Callable[..., Any], *, alike: bool) -> list[Record]:
    """Records of different parts; in one order, or each in an order of its own."""
    known = draw(st.lists(names, max_size=5, unique=True))
    found = []
    for number in range(draw(st.integers(1, 4))):
        mine = [name for name in known if draw(st.booleans())]
        order = ["format", "identity", *mine] if alike else draw(st.permutations(["format", "identity", *mine]))
        values: Record = {"format": FORMAT, "identity": f"run {number}"} | {name: draw(plain) for name in mine}
        found.append(seal({name: values[name] for name in order}))
    return found


def put(folder: Path, content: bytes, name: str = "some") -> Store:
    """A store with a packed file."""
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    (folder / FOLDER / f"{name}.parquet").write_bytes(content)
    return Store(folder)


def identities(records: list[Record]) -> dict[str, list[Any]]:
    return {"identity": [one["identity"] for one in records]}


def less(one: Record, parts: Any) -> Record:
    return seal({part: value for part, value in one.items() if part not in parts})


def by_identity(store: Store, said: Callable[[str], None] | None = None) -> dict[str, Record]:
    return {one["identity"]: one for one in store.records(said)}


@given(shelves(alike=True), st.data())
def test_lines_make_the_very_file(records: list[Record], data: Any) -> None:
    for one in records:
        assert text_from(lines_of(one)) == text_of(one)


@given(shelves(alike=True), st.data())
def test_any_records_come_back_to_the_last_byte(
    tmp_path_factory: pytest.TempPathFactory, records: list[Record], data: Any
) -> None:
    """Those of one order, as all that this library writes: what is left out apart, their very files."""
    lacking = {one["identity"]: data.draw(st.sets(st.sampled_from([*one][2:]))) for one in records}
    content = pack(records, identities(records), lambda one: lacking[one["identity"]])
    store = put(tmp_path_factory.mktemp("store"), content)
    for one in records:
        expected = less(one, lacking[one["identity"]])
        found = store.get(one["identity"], pytest.fail)
        assert found is not None
        assert text_of(found) == text_of(expected)
        without = data.draw(st.sets(st.sampled_from([*one, "another"]))) - {*RESERVED}
        light = store.get(one["identity"], pytest.fail, without=without)
        assert repr(light) == repr({part: value for part, value in found.items() if part not in without})
    assert list(by_identity(store, pytest.fail)) == [one["identity"] for one in records]


@given(shelves(alike=False))
def test_records_whose_orders_contradict_each_other_say_the_same(
    tmp_path_factory: pytest.TempPathFactory, records: list[Record]
) -> None:
    store = put(tmp_path_factory.mktemp("store"), pack(records, identities(records)))
    for one in records:
        found = store.get(one["identity"], pytest.fail)
        assert found is not None
        assert found["checksum"] == seal(found)["checksum"]
        expected = {part: found[part] if part == "checksum" else value for part, value in one.items()}
        assert repr(sorted(found.items())) == repr(sorted(expected.items()))


TRAINED = [record("rpr", seed) for seed in range(3)]
MIXED = [audit_record("fixed"), *TRAINED, record("iid", 1, None), audit_record("iid")]


def first_seed_alone(one: Record) -> tuple[str, ...]:
    return () if one["run"]["seed"] == 0 else ("curves", "pairs")


@pytest.fixture
def mixed(tmp_path: Path) -> Store:
    return put(tmp_path, pack(MIXED, as_columns(MIXED), first_seed_alone))


def test_audits_and_training_share_a_file(mixed: Store) -> None:
    """An audit comes first, and has none of the parts in the middle of a record of training."""
    found = by_identity(mixed, pytest.fail)
    for one in MIXED:
        expected = less(one, first_seed_alone(one))
        assert text_of(found[one["identity"]]) == text_of(expected)
        assert mixed.get(one["identity"], pytest.fail) == expected
    assert found[TRAINED[0]["identity"]] == TRAINED[0]  # the checksum, too, is that of the record's own file
    light = {one["identity"]: one for one in mixed.all_records(pytest.fail, without=BULKY)}
    assert all(not {*one} & {*BULKY} for one in light.values())
    assert light.keys() == found.keys() == mixed.ended(pytest.fail).keys()
    assert mixed.get("another", pytest.fail) is None


def test_other_tools_find_settings_and_figures_beside_the_json(mixed: Store) -> None:
    rows = pq.read_table(mixed.folder / FOLDER / "some.parquet").to_pylist()
    assert [row["ema.final"] for row in rows[1:4]] == [one["metrics"]["ema"]["final"] for one in TRAINED]
    assert [row["memory.retrieval"] for row in rows] == [one["run"]["memory"]["retrieval"] for one in MIXED]
    assert json.loads(rows[1]["json.gaps"]) == TRAINED[0]["gaps"]
    assert rows[2]["json.pairs"] is None
    assert json.loads(rows[0]["json.split"]) is None


def test_any_text_may_be_packed(tmp_path: Path) -> None:
    """Also one that no encoding has, as the name of a folder may be, and numbers that no column can hold."""
    run = run_of(data__name="ü/\udcff \N{SNOWMAN}\n\0", learner__hyper={"many": 2**70, "few": None})
    odd = seal({**record(run=run), "name": "\ud800 'quoted' \"twice\"", "split": None})
    store = put(tmp_path, pack([odd, MIXED[0]], as_columns([odd, MIXED[0]])))
    assert repr(store.get(odd["identity"], pytest.fail)) == repr(odd)
    row = pq.read_table(tmp_path / FOLDER / "some.parquet").to_pylist()[0]
    assert row["data.name"] == "ü/? \N{SNOWMAN}\n\0"
    assert row["learner.hyper.many"] == str(2**70)


def test_the_same_records_give_the_same_bytes() -> None:
    again = [copy.deepcopy(one) for one in MIXED]
    assert pack(MIXED, as_columns(MIXED), first_seed_alone) == pack(again, as_columns(again), first_seed_alone)


def test_an_earlier_format_is_packed_as_the_present_one(tmp_path: Path) -> None:
    """So is a file that somebody has laid out in another way."""
    store = Store(tmp_path)
    (tmp_path / "records").mkdir()
    old = sealed({**{part: value for part, value in TRAINED[0].items() if part != "checksum"}, "format": EARLIER[0]})
    store.record_file(old["identity"]).write_text(json.dumps(old, indent=1), encoding="utf-8")
    store.record_file(TRAINED[1]["identity"]).write_text(json.dumps(TRAINED[1], indent=3), encoding="utf-8")
    records = store.all_records(pytest.fail)
    assert {one["format"] for one in records} == {FORMAT, EARLIER[0]}
    packed = put(tmp_path / "into", pack(records, as_columns(records)))
    for one in TRAINED[:2]:
        assert packed.get(one["identity"], pytest.fail) == one


def change(store: Store, edit: Callable[[dict[str, list[Any]]], object]) -> Store:
    """The file of a store, with other values in its cells."""
    path = store.folder / FOLDER / "some.parquet"
    columns = pq.read_table(path).to_pydict()
    edit(columns)
    return put(store.folder, written(columns))


def written(columns: dict[str, Any]) -> bytes:
    target = io.BytesIO()
    pq.write_table(pa.table(columns), target)
    return target.getvalue()


CELLS: dict[str, tuple[str, Callable[[str], str | None], str]] = {
    "another number": ("json.gaps", lambda text: text.replace("1", "2", 1), "its content does not match its checksum"),
    "no text": ("json.run", lambda text: "", "it is not JSON"),
    "a part is gone": ("json.audit", lambda text: None, "its content does not match its checksum"),
    "a part is new": ("json.pairs", lambda text: "{}", "its content does not match its checksum"),
    "another checksum": ("json.checksum", lambda text: f'"{"0" * 64}"', "its content does not match its checksum"),
    "no checksum": ("json.checksum", lambda text: None, "it has no checksum"),
    "another identity": ("identity", lambda text: "f" * 24, "it is the record of the run"),
    "no identity": ("identity", lambda text: None, "it is the record of the run"),
    "another format": ("json.format", lambda text: '"reprise-record/9"', "another version of reprise"),
    "another thing": ("json.format", lambda text: '"x"', "its format is 'x', not 'reprise-record/4'"),
}


@pytest.mark.parametrize("what", CELLS)
def test_a_damaged_row_is_named_and_the_others_are_read(mixed: Store, what: str) -> None:
    column, edit, why = CELLS[what]
    hurt = MIXED[2]["identity"]
    whole = by_identity(mixed)

    def spoil(columns: dict[str, list[Any]]) -> None:
        columns[column][2] = edit(columns[column][2])

    def reseal(columns: dict[str, list[Any]]) -> None:
        """What is said of a format is said of a whole record."""
        spoil(columns)
        parts = {name[5:]: values[2] for name, values in columns.items() if name.startswith("json.")}
        kept = {part: json.loads(text) for part, text in parts.items() if text is not None}
        columns["json.checksum"][2] = json.dumps(seal(kept)["checksum"])

    store = change(mixed, reseal if column == "json.format" else spoil)
    said: list[str] = []
    assert by_identity(store, said.append) == {name: one for name, one in whole.items() if name != hurt}
    assert len(said) == 1
    assert str(store.folder / FOLDER / "some.parquet") in said[0]
    assert why in said[0]
    assert "is not used; its run is made again" in said[0]
    said.clear()
    assert store.get(hurt, said.append) is None
    assert len(said) == (column != "identity")  # or nobody knows that it is there
    assert store.get(MIXED[0]["identity"], pytest.fail) == MIXED[0]


def test_bytes_that_are_no_text_are_damage_to_their_row(mixed: Store) -> None:
    def spoil(columns: dict[str, list[Any]]) -> None:
        for name in ("identity", "json.run"):
            columns[name] = [text.encode() for text in columns[name]]
        columns["json.run"][2] = b"\xff" + columns["json.run"][2][1:]
        columns["identity"][3] = b"\xff"

    whole, said = by_identity(mixed), list[str]()
    hurt = {MIXED[place]["identity"] for place in (2, 3)}
    found = by_identity(change(mixed, spoil), said.append)
    assert found == {name: one for name, one in whole.items() if name not in hurt}
    assert ["is damaged: " in one for one in said] == [True, True]


FILES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "cut off": (lambda content: content[: len(content) // 2], "Parquet magic bytes not found"),
    "cut off at its head": (lambda content: content[1000:], "cannot be read: "),
    "empty": (lambda content: b"", "Parquet file size is 0 bytes"),
    "no Parquet": (lambda content: b"identity,name\n1,2\n", "Parquet magic bytes not found"),
    "of another": (lambda content: written({"a": [1, 2]}), "it holds no records"),
    "of another, with identities": (lambda content: written({"identity": ["x"]}), "it holds no records"),
    "of numbers": (lambda content: written({"identity": [1], "json.checksum": [2]}), "Unsupported cast from int64"),
    "without rows": (lambda content: written({"identity": pa.array([], pa.string()), "json.checksum": []}), ""),
}


@pytest.mark.parametrize("what", FILES)
def test_a_damaged_file_is_told_of_and_the_others_are_read(mixed: Store, what: str) -> None:
    """By `records` each time, by `get` and `ended` the first time: thousands of runs may be asked for."""
    damage, why = FILES[what]
    path = mixed.folder / FOLDER / "more.parquet"
    path.write_bytes(damage((mixed.folder / FOLDER / "some.parquet").read_bytes()))
    for ask in (
        lambda store, warn: store.get(MIXED[0]["identity"], warn),
        lambda store, warn: store.get("another", warn),
        lambda store, warn: store.all_records(warn),
        lambda store, warn: store.ended(warn),
    ):
        store, said = Store(mixed.folder), list[str]()
        ask(store, said.append)
        assert len(said) == bool(why)
        assert why in " ".join(said)
        if why:
            assert said[0].startswith(f"The file {path} cannot be read: ")
            assert said[0].endswith(". It is not used; its runs are made again where needed.")
        assert store.get(MIXED[1]["identity"], pytest.fail) == MIXED[1]
        store.ended(pytest.fail)
        said.clear()
        assert len(store.all_records(said.append)) == len(MIXED)
        assert len(said) == bool(why)


def test_a_folder_and_a_file_that_may_not_be_read_are_told_of(mixed: Store) -> None:
    (mixed.folder / FOLDER / "folder.parquet").mkdir()
    said: list[str] = []
    assert len(Store(mixed.folder).all_records(said.append)) == len(MIXED)
    assert ["Is a directory" in one for one in said] == [True]


def test_whatever_happens_to_bytes_is_found_or_changes_nothing(mixed: Store) -> None:
    path = mixed.folder / FOLDER / "some.parquet"
    content, draw, good = path.read_bytes(), random.Random(0), by_identity(mixed)
    whole = 0
    for number in range(400):
        a = draw.randrange(len(content))
        b = a + draw.randrange(1, 40)
        hurt = [
            content[:a] + bytes([content[a] ^ 1 << draw.randrange(8)]) + content[a + 1 :],
            content[:a] + draw.randbytes(b - a) + content[b:],
            content[:a] + content[b:],
            content[:a],
        ]
        said: list[str] = []
        store = put(mixed.folder, hurt[number % len(hurt)])
        found = by_identity(store, said.append)
        assert found.items() <= good.items()
        assert said or len(found) == len(good)
        store.ended(said.append)
        whole += not said
    assert whole < 200  # columns for other tools are not read


def test_a_record_of_its_own_file_is_preferred(mixed: Store) -> None:
    """It may have more parts, and be newer; one that is damaged is told of, and the packed one is used."""
    store, one = mixed, MIXED[2]
    newer = seal({**one, "timings": {"prepare": 9.0, "steps": 0}})
    store.put(newer)
    assert store.get(one["identity"], pytest.fail) == newer
    assert by_identity(store, pytest.fail)[one["identity"]] == newer
    assert len(store.all_records()) == len(MIXED)
    when = store.ended()
    assert when.keys() == {each["identity"] for each in MIXED}
    assert [name for name, time in when.items() if time] == [one["identity"]]
    store.record_file(one["identity"]).write_text("{}")
    for ask in (lambda warn: store.get(one["identity"], warn), lambda warn: by_identity(store, warn)[one["identity"]]):
        said: list[str] = []
        assert ask(said.append) == less(one, first_seed_alone(one))
        assert len(said) == 1
        assert said[0].endswith("It is not used; one that is packed is.")


def test_a_damaged_row_is_no_matter_where_another_is_whole(mixed: Store) -> None:
    content = (mixed.folder / FOLDER / "some.parquet").read_bytes()

    def spoil(columns: dict[str, list[Any]]) -> None:
        columns["json.gaps"] = ["[]"] * len(MIXED)

    put(change(mixed, spoil).folder, content, "whole")
    said: list[str] = []
    assert len(Store(mixed.folder).all_records(said.append)) == len(MIXED)
    assert len(said) == len(MIXED)


def test_a_store_travels_without_its_rows(mixed: Store) -> None:
    before = mixed.get(MIXED[0]["identity"])
    for copied in (copy.deepcopy(mixed), pickle.loads(pickle.dumps(mixed))):
        assert copied.get(MIXED[0]["identity"]) == before
    assert len(pickle.dumps(mixed)) < 1000


def test_without_pyarrow_it_is_said_what_brings_it(mixed: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for ask in (lambda store: store.get("x"), lambda store: store.all_records(), lambda store: store.ended()):
        with pytest.raises(NotInstalled, match=r"^packed records need pyarrow, .* the extra 'table' brings it"):
            ask(Store(mixed.folder))
    with pytest.raises(NotInstalled):
        pack(MIXED, {})


def test_only_packed_records_need_pyarrow(tmp_path: Path) -> None:
    """A store without them, and a record that has a file of its own, are read without."""
    Store(tmp_path / "plain").put(MIXED[0])
    put(tmp_path / "both", pack(MIXED, as_columns(MIXED))).put(MIXED[0])
    asked = MIXED[0]["identity"]
    code = f"""
import sys
from reprise.runs import Store
plain = Store({str(tmp_path / "plain")!r})
assert plain.get({asked!r}) and plain.all_records() and plain.ended() and plain.get("another") is None
plain.write_index()
assert Store({str(tmp_path / "both")!r}).get({asked!r})
assert not [name for name in sys.modules if name.startswith("pyarrow")]
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], env={**os.environ, **PYTHON}, check=True)


def test_packed_alone_knows_nothing_of_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert Packed(tmp_path / "none").get("x") is None
    assert not Packed(tmp_path / "none").ended()
    assert digest("") not in Store(tmp_path).ended()
