"""Records in files: a JSON object with a key to a line, and last a checksum of the lines before it.

So whether a file is whole is seen from its bytes, and a part of it can be read without the others. A file that somebody
has laid out in another way, with the same content, is as good: then the lines are made again from what it says.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Mapping

from reprise.core.files import Damaged, Record, check_format, digest, parse_json, read_bytes, write_atomic

_END = b',\n"checksum":"%s"\n}\n'
_LENGTH = len(_END % (b"0" * 64))


def seal(record: Record) -> Record:
    """The record with a checksum of all it says, as it stands in a file."""
    content = _without(record, ("checksum",))
    return {**content, "checksum": hashlib.sha256(_lines(content)).hexdigest()}


def checked(record: object, form: str, *earlier: str) -> Record:
    """The record, if it is whole and of this format, or of an earlier one; otherwise say what is wrong with it.

    In earlier formats the checksum is that of the content as plain JSON with sorted keys.
    """
    found = check_format(record, form, *earlier)
    content = _without(found, ("checksum",))
    try:
        expected = hashlib.sha256(_lines(content)).hexdigest() if found["format"] == form else digest(content)
    except ValueError:  # such as 1e999, which is read as infinity
        raise Damaged("it holds a number that no record can hold") from None
    if found.get("checksum") != expected:
        raise Damaged("its content does not match its checksum")
    return found


def text_of(record: Record) -> bytes:
    """What a file says of a sealed record."""
    return _lines(_without(record, ("checksum",))) + _END % str(record["checksum"]).encode()


def lines_of(record: Record) -> dict[str, str]:
    """A sealed record key by key, as its file says each, the checksum last."""
    return {key: _json(value) for key, value in record.items()}


def text_from(lines: Mapping[str, str]) -> bytes:
    """The file of a record from what `lines_of` gave."""
    body = ",\n".join(f"{json.dumps(key)}:{value}" for key, value in lines.items() if key != "checksum")
    return ("{\n" + body).encode() + _END % lines["checksum"].strip('"').encode()


def write_record(path: str | os.PathLike[str], record: Record) -> None:
    """Write a sealed record, whole or not at all."""
    text = text_of(record)
    write_atomic(path, lambda file: file.write(text))


def read_record(path: str | os.PathLike[str], form: str, *earlier: str, without: Collection[str] = ()) -> Record | None:
    """The record in a file, or None if there is no file; keys named in `without` are checked, but not read."""
    text = read_bytes(path)
    return None if text is None else parse_record(text, form, *earlier, without=without)


def parse_record(text: bytes, form: str, *earlier: str, without: Collection[str] = ()) -> Record:
    """The record that a file says; one that is damaged or of another format is an error."""
    lines, end = text[:-_LENGTH], text[-_LENGTH:]
    if end != _END % hashlib.sha256(lines).hexdigest().encode():
        return _without(checked(parse_json(text), form, *earlier), without)
    if without:
        left_out = tuple(f"{json.dumps(key)}:".encode() for key in without)
        kept = [line for line in lines.split(b"\n")[1:] if not line.startswith(left_out)]
        text = b"{" + b"".join(kept).removesuffix(b",") + end
    return check_format(parse_json(text), form, *earlier)


def _lines(content: Record) -> bytes:
    """All but the end of the file: JSON without line breaks of its own, in ASCII, a key to a line."""
    parts = (f"{json.dumps(key)}:{_json(value)}" for key, value in content.items())
    return ("{\n" + ",\n".join(parts)).encode()


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _without(record: Record, keys: Collection[str]) -> Record:
    return {key: value for key, value in record.items() if key not in keys}
