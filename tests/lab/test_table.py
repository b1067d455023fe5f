"""Records as a table: every setting and figure under its flat name, in CSV and Parquet alike."""

from __future__ import annotations

import csv
import io
import sys

import pyarrow.parquet as pq
import pytest
from records import audit_record, record, run_of

from reprise.core.extras import NotInstalled
from reprise.lab.table import as_csv, as_parquet, columns, flat

RECORDS = [record("rpr", 0), record("iid", 1, None), audit_record("fixed")]


def test_a_row_has_everything_under_its_whole_name() -> None:
    row = flat(RECORDS[0])
    expected = {
        "identity": RECORDS[0]["identity"],
        "seed": 0,
        "data.name": "glyphs",
        "memory.retrieval": "rpr",
        "learner.hyper.alpha": 0.3,
        "ema.final": 0.3,
        "live.final": 0.15,
        "prequential.accuracy": 0.25,
        "audit.max": 9,
        "audit.longest": 9,
        "data.train_fingerprint": "1a" * 16,
        "tape": RECORDS[0]["tape"],
        "torch": "2.13.0+cpu",
        "command": "reprise train",
        "seconds": 12.5,
    }
    assert expected.items() <= row.items()
    assert all(value is None or isinstance(value, (str, int, float)) for value in row.values())
    assert not {"evaluations", "gaps", "format", "checksum"} & row.keys()


def test_columns_of_a_section_stay_together() -> None:
    more = record(run=run_of(learner__passes="joint"))
    names = columns([flat(RECORDS[2]), flat(more)])
    sections = [name.partition(".")[0] for name in names if "." in name]
    assert [one for one, before in zip(sections, ["", *sections], strict=False) if one != before] == list(
        dict.fromkeys(sections)
    )


def test_csv_and_parquet_hold_the_same() -> None:
    rows = [flat(one) for one in RECORDS]
    table = list(csv.DictReader(io.StringIO(as_csv(RECORDS).decode())))
    parquet = pq.read_table(io.BytesIO(as_parquet(RECORDS))).to_pylist()
    assert list(table[0]) == list(parquet[0]) == columns(rows)
    for row, text, typed in zip(rows, table, parquet, strict=True):
        assert {name: value for name, value in typed.items() if value is not None} == {
            name: value for name, value in row.items() if value is not None
        }
        assert {name: value for name, value in text.items() if value} == {
            name: str(value) for name, value in row.items() if value not in (None, "")
        }


def test_a_column_of_two_kinds_is_text_and_whole_numbers_join_others() -> None:
    mixed = [record(run=run_of(learner__hyper={"a": value, "b": size})) for value, size in ((1, 1), ("many", 0.5))]
    found = pq.read_table(io.BytesIO(as_parquet(mixed)))
    assert found["learner.hyper.a"].to_pylist() == ["1", "many"]
    assert found["learner.hyper.b"].to_pylist() == [1.0, 0.5]


def test_what_no_column_can_hold_is_written_as_text() -> None:
    """Names of files may have signs that no encoding has, and settings numbers of more than 64 bits."""
    odd = [record(run=run_of(data__name="a\udcff", learner__hyper={"a": value})) for value in (2**63, 1, -(2**63))]
    found = pq.read_table(io.BytesIO(as_parquet(odd)))
    assert found["learner.hyper.a"].to_pylist() == ["9223372036854775808", "1", "-9223372036854775808"]
    assert found["data.name"].to_pylist() == ["a?"] * 3
    assert pq.read_table(io.BytesIO(as_parquet(odd[1:])))["learner.hyper.a"].to_pylist() == [1, -(2**63)]
    assert [row["data.name"] for row in csv.DictReader(io.StringIO(as_csv(odd).decode()))] == ["a?"] * 3


def test_parquet_without_pyarrow_says_which_extra_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(NotInstalled, match=r"^Parquet needs pyarrow, .* the extra 'table' brings it"):
        as_parquet(RECORDS)
