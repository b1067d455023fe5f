"""Unpacking: plain files below one folder, and nothing at all of an archive that is not sound."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

import reprise.data.archive
from reprise.data import DataError
from reprise.data.archive import unpack


def tar(*members: tarfile.TarInfo) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tape:
        for member in members:
            if member.isreg():
                member.size = 4
            tape.addfile(member, io.BytesIO(b"evil") if member.isreg() else None)
    return packed.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, link
    return made


def zipped(name: str, mode: int = 0) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as made:
        entry = zipfile.ZipInfo("set")
        entry.filename = name  # as it is: the constructor mends names
        entry.external_attr = mode << 16
        made.writestr(entry, b"evil")
    return packed.getvalue()


def packed_zip(at: int, value: int, content: bytes = b"evil" * 50) -> bytes:
    """A deflated entry with one number of two bytes changed at `at` in its headers: 6 its flags, 8 its method."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("set/a", content)
    raw = bytearray(made.getvalue())
    for place in (at, raw.index(b"PK\1\2") + at + 2):
        raw[place : place + 2] = value.to_bytes(2, "little")
    return bytes(raw)


def damaged(raw: bytes, at: int) -> bytes:
    return raw[:at] + bytes(16) + raw[at + 16 :]


NOISE = bytes(k * k % 251 for k in range(3000))

EVIL = {
    "up": (tar(member("set/ok"), member("set/../../escaped")), "would lie outside the folder set"),
    "absolute": (tar(member("/escaped")), "would lie outside"),
    "elsewhere": (tar(member("escaped")), "would lie outside"),
    "drive": (tar(member("set/C:\\escaped")), "would lie outside"),
    "symlink": (tar(member("set/l", tarfile.SYMTYPE, "../.."), member("set/l/escaped")), "'set/l' is a link or a"),
    "hard link": (tar(member("set/l", tarfile.LNKTYPE, "../escaped")), "is a link or a device"),
    "device": (tar(member("set/null", tarfile.CHRTYPE)), "is a link or a device"),
    "pipe": (tar(member("set/pipe", tarfile.FIFOTYPE)), "is a link or a device"),
    "twice": (tar(member("set/a"), member("set/a")), "is refused: it holds set/a twice"),
    "zip up": (zipped("set/../../escaped"), "would lie outside"),
    "zip back": (zipped("set\\..\\..\\escaped"), "would lie outside"),
    "zip cut": (zipped("set/ok\0/../../escaped"), "would lie outside"),
    "zip symlink": (zipped("set/l", 0o120777), "is a link or a device"),
    "nothing": (b"no archive at all", "is damaged"),
    "empty": (tar(), "does not hold the folder set"),
    "large": (tar(*(member(f"set/{k}") for k in range(30))), "unpacks to more than 100 bytes"),
    "broken off": (tar(member("set/a"))[:700], "damaged|not hold"),
    "folders": (tar(*(member(f"set/{k}", tarfile.DIRTYPE) for k in range(60))), "holds more than 50 files"),
    "zip encrypted": (packed_zip(6, 0x1), "is refused: its entry 'set/a' is encrypted"),
    "zip strongly encrypted": (packed_zip(6, 0x41), "'set/a' is encrypted"),
    "zip method": (packed_zip(8, 97), "cannot be unpacked by this Python: that compression"),
    "zip patch": (packed_zip(6, 0x20), "cannot be unpacked by this Python: compressed patched data"),
    "zip damaged": (damaged(packed_zip(6, 0, NOISE), 35), "is damaged: "),
    "gzip damaged": (damaged(gzip.compress(tar(member("set/a")) + NOISE), 30), "is damaged: "),
    "gzip broken off": (gzip.compress(tar(member("set/a")) + NOISE)[:-600], "is damaged: "),
}


@pytest.mark.parametrize("kind", EVIL)
def test_a_malicious_archive_leaves_nothing(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content, said = EVIL[kind]
    monkeypatch.setattr(reprise.data.archive, "MOST_FILES", 50)
    into = tmp_path / "a" / "b"
    into.mkdir(parents=True)
    (tmp_path / "archive").write_bytes(content)
    with pytest.raises(DataError, match=said):
        unpack(tmp_path / "archive", into, "set", 100)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "archive", "b"]


@pytest.mark.parametrize(
    "content", [tar(member("./set/in/file")), zipped("set/in/file"), zipped("set/in/file", 0o100644)]
)
def test_a_good_archive_is_unpacked(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "archive").write_bytes(content)
    assert unpack(tmp_path / "archive", tmp_path / "into", "set", 100) == tmp_path / "into" / "set"
    assert (tmp_path / "into" / "set" / "in" / "file").read_bytes() == b"evil"
    assert [path.name for path in (tmp_path / "into").iterdir()] == ["set"]


def test_what_the_caller_does_wrong_is_not_the_archive(tmp_path: Path) -> None:
    (tmp_path / "archive").write_bytes(zipped("set/in/file"))

    def stop(done: int, whole: int) -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        unpack(tmp_path / "archive", tmp_path / "into", "set", 100, stop)
    assert list((tmp_path / "into").iterdir()) == []
