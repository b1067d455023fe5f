"""Records in files: whatever byte is changed, it is found or changes nothing; parts are read as the whole is."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.core.files import Damaged, OtherFormat, Record, sealed
from reprise.core.record_file import checked, parse_record, read_record, seal, text_of, write_record

NOW, BEFORE = "thing/4", "thing/3"
CONTENT: Record = {
    "format": NOW,
    "identity": "0f3a",
    "name": 'ä "quoted"\nname, \ud800',
    "pairs": {"cells": [[1, 2, 3], [4, 5]], "checksum": "no"},
    "curves": {"loss": [0.1, 1e-300, -0.0, 12345678901234567890, None, True]},
    "pairs:": [],
    "run": {"seed": 3},
}
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
records = st.dictionaries(st.text().filter(lambda key: key not in ("format", "checksum")), plain, max_size=5).map(
    lambda content: seal({"format": NOW, **content})
)


def same(one: Any, other: Any) -> bool:
    """Equal to the last bit: −0.0 is not 0.0, and 1 is neither 1.0 nor True."""
    return repr(one) == repr(other)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "record.json"


def write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def test_a_record_comes_back_as_it_was(path: Path) -> None:
    record = seal(CONTENT)
    write_record(path, record)
    assert same(read_record(path, NOW), record)
    assert same(json.loads(path.read_bytes()), record)
    assert checked(record, NOW) is record
    assert len(path.read_text("ascii").splitlines()) == len(record) + 2
    assert read_record(path.with_name("other"), NOW) is None


@given(records, st.data())
def test_any_record_is_read_whole_and_in_parts(record: Record, data: Any) -> None:
    text = text_of(record)
    assert same(parse_record(text, NOW), record)
    keys = [*(key for key in record if key not in ("format", "checksum")), "another"]
    without = data.draw(st.sets(st.sampled_from(keys)))
    expected = {key: value for key, value in record.items() if key not in without}
    assert same(parse_record(text, NOW, without=without), expected)


def test_every_flipped_bit_is_found_or_changes_nothing() -> None:
    record = seal(CONTENT)
    text, found, harmless = text_of(record), 0, 0
    for place in range(len(text)):
        for bit in range(8):
            hurt = text[:place] + bytes([text[place] ^ 1 << bit]) + text[place + 1 :]
            for without in ((), ("pairs", "curves")):
                try:
                    read = parse_record(hurt, NOW, without=without)
                except Damaged:
                    found += 1
                    continue
                assert same(read, {key: value for key, value in record.items() if key not in without}), (place, bit)
                harmless += 1
    assert harmless < 0.02 * found  # such as a tab for a line break


@given(records, st.randoms(use_true_random=False))
def test_whatever_happens_to_bytes_is_found_or_changes_nothing(record: Record, rng: random.Random) -> None:
    """Bytes replaced, lost, doubled, cut off or put elsewhere."""
    text = text_of(record)
    a, b, c = sorted(rng.randrange(len(text) + 1) for _ in range(3))
    hurt = [
        text[:a] + rng.randbytes(b - a) + text[b:],
        text[:a] + text[b:],
        text[:b] + text[a:],
        text[:a],
        text[:a] + text[b:c] + text[a:b] + text[c:],
    ]
    for content in hurt:
        try:
            found = parse_record(content, NOW)
        except Damaged:
            continue
        assert same(found, record)


def test_a_number_that_has_become_too_large_is_found() -> None:
    text = text_of(seal({"format": NOW, "seconds": 3.5e16}))
    assert b"3.5e+16" in text
    for number in (b"3.5e+999", b"-3.5e+999"):
        with pytest.raises(Damaged, match="a number that no record can hold"):
            parse_record(text.replace(b"3.5e+16", number), NOW)


def test_lines_of_another_record_are_found(path: Path) -> None:
    """Also where they are whole, and the checksum is that of the other."""
    lines = text_of(seal(CONTENT)).splitlines(keepends=True)
    others = text_of(seal({**CONTENT, "run": {"seed": 4}})).splitlines(keepends=True)
    assert [one != other for one, other in zip(lines, others, strict=True)].count(True) == 2
    for place, line in enumerate(others):
        if line != lines[place]:
            write(path, b"".join([*lines[:place], line, *lines[place + 1 :]]))
            with pytest.raises(Damaged, match="its content does not match its checksum"):
                read_record(path, NOW)


def test_another_layout_of_the_same_content_is_as_good(path: Path) -> None:
    record = seal(CONTENT)
    for text in (json.dumps(record, indent=1), json.dumps(record), text_of(record).decode().replace("\n", "\r\n")):
        write(path, text.encode())
        assert same(read_record(path, NOW), record)
        assert "pairs" not in (read_record(path, NOW, without=("pairs",)) or {"pairs": 0})
        write(path, text.replace("12345678901234567890", "12345678901234567891").encode())
        with pytest.raises(Damaged, match="its content does not match its checksum"):
            read_record(path, NOW)


def test_an_earlier_format_is_read_by_its_own_checksum(path: Path) -> None:
    record = sealed({**CONTENT, "format": BEFORE})
    write(path, json.dumps(record, indent=1).encode())
    assert same(read_record(path, NOW, BEFORE), record)
    with pytest.raises(OtherFormat, match=f"its format is '{BEFORE}', older than '{NOW}'"):
        read_record(path, NOW)
    write(path, json.dumps({**record, "name": "b"}).encode())
    with pytest.raises(Damaged, match="its content does not match its checksum"):
        read_record(path, NOW, BEFORE)
    write_record(path, record)  # its lines are others', its checksum is its own
    assert same(read_record(path, NOW, BEFORE), record)
    with pytest.raises(Damaged):
        checked({**seal(CONTENT), "format": BEFORE}, NOW, BEFORE)


def test_a_whole_file_of_another_format_is_named(path: Path) -> None:
    write_record(path, seal({"format": "thing/5", "identity": "1"}))
    with pytest.raises(OtherFormat, match=f"its format is 'thing/5', newer than '{NOW}'"):
        read_record(path, NOW, BEFORE)
