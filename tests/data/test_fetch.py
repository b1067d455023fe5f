"""Fetching from a server of our own on this machine: resumed, checked, unpacked with care."""

from __future__ import annotations

import hashlib
import io
import math
import re
import tarfile
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain, repeat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import reprise.data.download
from reprise.cli import main
from reprise.data import DataError, fetch, load
from reprise.data.download import TRIES


class Server(ThreadingHTTPServer):
    """Serves one content; what differs from a good server is set here."""

    content = b""
    cuts: Iterator[int | None] = repeat(None)
    """After how many bytes each connection closes."""
    ranges = True
    """Whether it sends a part when asked for one; otherwise it always sends all."""
    length: str | None = None
    """Content-Length, when it is not the true one; empty for none."""
    beyond = 0
    """Bytes that follow the content."""
    stalls = 0
    """How many connections stay open, and silent, after what they sent."""
    over: threading.Event
    status = 200
    asked: list[str | None]
    sent = 0

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
        length = str(len(rest)) if server.length is None else server.length
        if length:
            self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(rest[: next(server.cuts)])
        with suppress(ConnectionError):  # the other side may leave
            for _ in range(0, server.beyond, 1 << 16):
                server.sent += self.wfile.write(bytes(1 << 16))
        if len(server.asked) <= server.stalls:
            self.wfile.flush()
            server.over.wait(60)
        self.close_connection = True

    def log_message(self, *arguments: object) -> None:
        """Quiet."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Server(("127.0.0.1", 0), Handler) as made:
        made.asked, made.over = [], threading.Event()
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield made
        made.over.set()
        made.shutdown()
        thread.join()


@pytest.fixture
def archive(cifar100: Path, small: Callable[..., None], server: Server) -> bytes:
    """The tiny CIFAR-100 as an archive, known by its checksum and served."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tape:
        tape.add(cifar100 / "cifar-100-python", "cifar-100-python")
    server.content = packed.getvalue()
    url, md5 = f"{server.url}/cifar-100-python.tar.gz", hashlib.md5(server.content).hexdigest()
    small("cifar100", url=url, md5=md5, size=len(server.content))
    return server.content


@pytest.fixture(autouse=True)
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between requests, in seconds: counted, not slept."""
    taken: list[float] = []
    monkeypatch.setattr(reprise.data.download, "sleep", taken.append, raising=False)
    return taken


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
    cut = len(archive) // 3 + 1
    server.cuts = repeat(cut)
    fetch("cifar100", tmp_path)
    assert server.asked == [None, f"bytes={cut}-", f"bytes={2 * cut}-"]
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


def test_a_part_of_something_else_is_begun_again(archive: bytes, server: Server, tmp_path: Path) -> None:
    (tmp_path / "cifar-100-python.tar.gz.part").write_bytes(b"x" * (len(archive) + 5))
    fetch("cifar100", tmp_path)
    assert server.asked == [None]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "cifar-100-python.tar.gz.part").write_bytes(b"x" * (len(archive) - 5))
    fetch("cifar100", tmp_path / "other")
    assert server.asked == [None, f"bytes={len(archive) - 5}-", None]


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


def test_a_server_that_sends_nothing_ends(archive: bytes, server: Server, tmp_path: Path, naps: list[float]) -> None:
    server.cuts = repeat(0)
    with pytest.raises(DataError, match="the connection closed early"):
        fetch("cifar100", tmp_path)
    assert len(server.asked) == TRIES
    assert naps == [0.5, 1.0, 2.0]


PART = "cifar-100-python.tar.gz.part"


@pytest.mark.parametrize("length", ["", None])
def test_a_body_without_end_is_cut_at_the_published_size(
    archive: bytes, server: Server, tmp_path: Path, length: str | None
) -> None:
    server.beyond = 64 << 20
    server.length = str(len(archive) + server.beyond) if length is None else length
    said = r"is not the published cifar-100-python.tar.gz of [\d,]+ bytes: it (goes on after them|offers 67,\d+,\d+)$"
    with pytest.raises(DataError, match=said):
        fetch("cifar100", tmp_path)
    assert len(server.asked) == 1
    assert server.sent < 32 << 20  # what the connection holds, and no more
    assert not list(tmp_path.glob("cifar*"))


def test_a_larger_file_than_was_published_leaves_the_part(archive: bytes, server: Server, tmp_path: Path) -> None:
    (tmp_path / PART).write_bytes(archive[:100])
    server.content = archive + b"more"
    with pytest.raises(DataError, match=f"it offers {len(archive) + 4:,}"):
        fetch("cifar100", tmp_path)
    assert (tmp_path / PART).read_bytes() == archive[:100]


def test_a_dripping_server_is_asked_seldom_and_ends_well(
    archive: bytes, server: Server, tmp_path: Path, naps: list[float]
) -> None:
    server.cuts = repeat(41)
    fetch("cifar100", tmp_path)
    assert len(server.asked) == math.ceil(len(archive) / 41) > 10
    assert naps[:3] == [0.5, 1.0, 2.0]
    assert set(naps[5:]) == {10.0}
    assert len(load("cifar100", tmp_path)) == 6


def test_pauses_stay_short_while_much_is_gained(
    archive: bytes, server: Server, tmp_path: Path, naps: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reprise.data.download, "PIECE", 40)
    server.cuts = repeat(41)
    fetch("cifar100", tmp_path)
    assert set(naps) == {0.5}


def test_a_complete_part_needs_no_server(archive: bytes, server: Server, tmp_path: Path) -> None:
    (tmp_path / PART).write_bytes(archive)
    fetch("cifar100", tmp_path)
    assert server.asked == []
    assert len(load("cifar100", tmp_path)) == 6


def test_a_complete_part_is_checked_when_nothing_follows_it(
    archive: bytes, server: Server, tmp_path: Path, small: Callable[..., None]
) -> None:
    small("cifar100", size=10**6)  # a size that is wrong: the checksum decides
    (tmp_path / PART).write_bytes(archive)
    fetch("cifar100", tmp_path)
    assert server.asked == [f"bytes={len(archive)}-"]
    assert len(load("cifar100", tmp_path)) == 6


@pytest.mark.parametrize("ranges", [True, False])
def test_without_a_length_a_part_is_kept_and_goes_on(
    archive: bytes, server: Server, tmp_path: Path, ranges: bool
) -> None:
    server.length, server.ranges = "", ranges
    server.cuts = repeat(100)
    if not ranges:
        with pytest.raises(DataError, match="the connection closed early"):
            fetch("cifar100", tmp_path)
        assert (tmp_path / PART).read_bytes() == archive[:100]
    server.cuts = chain([100, 200], repeat(None))
    fetch("cifar100", tmp_path)
    assert len(load("cifar100", tmp_path)) == 6


def test_a_shorter_answer_leaves_the_part(archive: bytes, server: Server, tmp_path: Path) -> None:
    (tmp_path / PART).write_bytes(archive[:300])
    server.content, server.ranges = b"<html>please sign in</html>", False
    with pytest.raises(
        DataError, match=r"cannot be fetched now \(the server offers 27 bytes, and 300 are here already"
    ):
        fetch("cifar100", tmp_path)
    assert (tmp_path / PART).read_bytes() == archive[:300]


def test_what_came_before_a_silence_is_kept(
    archive: bytes, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reprise.data.download, "PATIENCE", 1.0)
    server.cuts, server.stalls = chain([100], repeat(None)), 1
    fetch("cifar100", tmp_path)
    assert server.asked[:2] == [None, "bytes=100-"]
    assert len(load("cifar100", tmp_path)) == 6


@pytest.mark.parametrize("length", ["abc", "-5", "1_000", "9" * 5000])
def test_a_length_that_is_no_number(
    archive: bytes, server: Server, tmp_path: Path, length: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / PART).write_bytes(archive[:100])
    server.length = length
    assert main(["data", "fetch", "cifar100", "--data", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert f"cannot be fetched now (the server gives {length[:40]!r} as the length of its answer)" in said
    assert said.count("\n") == 1
    assert (tmp_path / PART).read_bytes() == archive[:100]


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:port/x", "http://[::1/x", "http://127.0.0.1/ä", "http://127.0.0.1/a b"]
)
def test_an_address_that_is_none(archive: bytes, tmp_path: Path, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "fetch", "cifar100", "--data", str(tmp_path), "--url", url]) == 2
    assert f"{url!r} is not an address that can be asked for: " in capsys.readouterr().err


def test_a_wrong_file_says_its_size(archive: bytes, server: Server, tmp_path: Path) -> None:
    server.content = b"something else"
    with pytest.raises(DataError, match=rf", and it has 14 bytes instead of {len(archive):,}; it was removed"):
        fetch("cifar100", tmp_path)


@given(
    st.lists(st.tuples(st.integers(0, 600), st.booleans(), st.booleans()), max_size=TRIES - 1),
    st.integers(0, 900),
)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_whatever_breaks_off_in_between_the_file_comes_whole(
    archive: bytes, server: Server, broken: list[tuple[int, bool, bool]], held: int
) -> None:
    """Fewer failures than are borne, each cut short, with or without ranges and lengths: what is held never shrinks."""

    def cuts() -> Iterator[int | None]:
        for cut, *_ in [*broken, (None,)]:
            yield cut
            turn()

    def turn() -> None:
        ranges, known = next(ways, (True, True))
        server.ranges, server.length = ranges, None if known else ""

    with tempfile.TemporaryDirectory() as folder:
        part, ways = Path(folder) / PART, iter([way for _, *way in broken])
        part.write_bytes(archive[:held])
        server.cuts = cuts()
        turn()
        sizes = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(reprise.data.download, "sleep", lambda _: sizes.append(part.stat().st_size))
            fetch("cifar100", folder)
        assert len(load("cifar100", folder)) == 6
        assert sizes == sorted(sizes)
