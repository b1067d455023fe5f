"""Fetching from a server of our own on this machine: resumed, checked, unpacked with care."""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from reprise.cli import main
from reprise.data import DataError, fetch, load
from reprise.data.archive import unpack
from reprise.data.download import TRIES


class Server(ThreadingHTTPServer):
    """Serves one content; a connection closes after `cut` bytes; without `ranges` it always sends all."""

    content = b""
    cut: int | None = None
    ranges = True
    status = 200
    asked: list[str | None]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/archive"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server, wanted = self.server, self.headers.get("Range")
        server.asked.append(wanted)
        start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1]) if wanted and server.ranges else 0  # type: ignore[index]
        if server.status != 200 or start >= len(server.content):
            self.send_error(server.status if server.status != 200 else 416)
            return
        rest = server.content[start:]
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(server.content) - 1}/{len(server.content)}")
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest if server.cut is None else rest[: server.cut])
        self.close_connection = True

    def log_message(self, *arguments: object) -> None:
        """Quiet."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Server(("127.0.0.1", 0), Handler) as made:
        made.asked = []
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture
def archive(cifar100: Path, small: Callable[..., None], server: Server) -> bytes:
    """The tiny CIFAR-100 as an archive, known by its checksum and served."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tape:
        tape.add(cifar100 / "cifar-100-python", "cifar-100-python")
    server.content = packed.getvalue()
    small("cifar100", url=f"{server.url}/cifar-100-python.tar.gz", md5=hashlib.md5(server.content).hexdigest())
    return server.content


def test_fetch(archive: bytes, server: Server, tmp_path: Path) -> None:
    said: list[tuple[str, int, int]] = []
    folder = fetch("cifar100", tmp_path / "new", progress=lambda *done: said.append(done))
    assert folder == tmp_path / "new" / "cifar-100-python"
    assert len(load("cifar100", tmp_path / "new")) == 6
    assert {what for what, _, _ in said} == {"fetching", "checking", "unpacking"}
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["cifar-100-python", "cifar-100-python.tar.gz"]
    fetch("cifar100", tmp_path / "new")
    assert server.asked == [None]  # what is there is not fetched again


def test_a_transfer_that_breaks_off_goes_on(archive: bytes, server: Server, tmp_path: Path) -> None:
    server.cut = len(archive) // 3 + 1
    fetch("cifar100", tmp_path)
    assert server.asked == [None, f"bytes={server.cut}-", f"bytes={2 * server.cut}-"]
    assert len(load("cifar100", tmp_path)) == 6


def test_a_second_call_goes_on_where_the_first_stopped(archive: bytes, server: Server, tmp_path: Path) -> None:
    (tmp_path / "cifar-100-python.tar.gz.part").write_bytes(archive[:100])
    fetch("cifar100", tmp_path)
    assert server.asked == ["bytes=100-"]


def test_a_server_without_ranges(archive: bytes, server: Server, tmp_path: Path) -> None:
    server.ranges = False
    (tmp_path / "cifar-100-python.tar.gz.part").write_bytes(b"x" * 100)
    said: list[tuple[str, int, int]] = []
    fetch("cifar100", tmp_path, progress=lambda *done: said.append(done))
    assert max(done for what, *done in said if what == "fetching") == [len(archive)] * 2
    assert len(load("cifar100", tmp_path)) == 6


def test_a_part_that_is_too_long_is_begun_again(archive: bytes, server: Server, tmp_path: Path) -> None:
    (tmp_path / "cifar-100-python.tar.gz.part").write_bytes(b"x" * (len(archive) + 5))
    fetch("cifar100", tmp_path)
    assert server.asked == [f"bytes={len(archive) + 5}-", None]


def test_a_wrong_checksum(archive: bytes, server: Server, tmp_path: Path) -> None:
    server.content = archive[:-1] + b"?"
    with pytest.raises(DataError, match=r"is not the published file: its MD5 is .* it was removed"):
        fetch("cifar100", tmp_path)
    assert list(tmp_path.glob("cifar-100*")) == []
    (tmp_path / "cifar-100-python.tar.gz").write_bytes(b"by hand")
    with pytest.raises(DataError, match=r"remove it from .*, and get it from"):
        fetch("cifar100", tmp_path)


def test_an_archive_put_there_by_hand_is_used(archive: bytes, server: Server, tmp_path: Path) -> None:
    (tmp_path / "cifar-100-python.tar.gz").write_bytes(archive)
    fetch("cifar100", tmp_path)
    assert server.asked == []


def test_offline_says_what_to_put_where(
    archive: bytes, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.status = 503
    assert main(["data", "fetch", "cifar100", "--data", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "cannot be fetched now (the server answers 503" in said
    assert f"put cifar-100-python.tar.gz (MD5 {hashlib.md5(archive).hexdigest()})" in said
    assert f"into {tmp_path} by hand" in said
    assert main(["data", "fetch", "cifar100", "--data", str(tmp_path), "--url", "http://127.0.0.1:9/none"]) == 1
    assert "http://127.0.0.1:9/none cannot be fetched now (" in capsys.readouterr().err


def test_a_server_that_sends_nothing_ends(archive: bytes, server: Server, tmp_path: Path) -> None:
    server.cut = 0
    with pytest.raises(DataError, match="the connection closed early"):
        fetch("cifar100", tmp_path)
    assert len(server.asked) == TRIES


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


EVIL = {
    "up": (tar(member("set/ok"), member("set/../../escaped")), "would lie outside the folder set"),
    "absolute": (tar(member("/escaped")), "would lie outside"),
    "elsewhere": (tar(member("escaped")), "would lie outside"),
    "drive": (tar(member("set/C:\\escaped")), "would lie outside"),
    "symlink": (tar(member("set/l", tarfile.SYMTYPE, "../.."), member("set/l/escaped")), "'set/l' is a link or a"),
    "hard link": (tar(member("set/l", tarfile.LNKTYPE, "../escaped")), "is a link or a device"),
    "device": (tar(member("set/null", tarfile.CHRTYPE)), "is a link or a device"),
    "pipe": (tar(member("set/pipe", tarfile.FIFOTYPE)), "is a link or a device"),
    "twice": (tar(member("set/a"), member("set/a")), "twice"),
    "zip up": (zipped("set/../../escaped"), "would lie outside"),
    "zip back": (zipped("set\\..\\..\\escaped"), "would lie outside"),
    "zip cut": (zipped("set/ok\0/../../escaped"), "would lie outside"),
    "zip symlink": (zipped("set/l", 0o120777), "is a link or a device"),
    "nothing": (b"no archive at all", "is damaged"),
    "empty": (tar(), "does not hold the folder set"),
    "large": (tar(*(member(f"set/{k}") for k in range(30))), "unpacks to more than 100 bytes"),
    "broken off": (tar(member("set/a"))[:700], "damaged|not hold"),
}


@pytest.mark.parametrize("kind", EVIL)
def test_a_malicious_archive_leaves_nothing(kind: str, tmp_path: Path) -> None:
    content, said = EVIL[kind]
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
