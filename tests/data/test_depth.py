"""Pixels deeper than a byte: scaled, or refused when nothing says what is white."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from reprise.data import DataError, load

EVERY = np.arange(65536, dtype=np.uint16).reshape(256, 256)


def one(path: Path, write: Callable[[Path], object]) -> np.ndarray:
    """The first image of a folder of two classes, after `write` has put a file there."""
    for name in ("a", "b"):
        (path / name).mkdir(parents=True)
        write(path / name)
    return load(path).images[0]


def png16(path: Path, pixels: np.ndarray, kind: int) -> None:
    """A PNG of 16 bits: 0 grey, 2 colour, 4 grey and opacity, 6 colour and opacity. Pillow writes only grey ones."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    head = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 16, kind, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + body)


def tiff(path: Path, size: tuple[int, int], bits: int, content: bytes) -> None:
    """A grey TIFF with one strip: little-endian, not compressed."""
    tags = [(256, size[0]), (257, size[1]), (258, bits), (259, 1), (262, 1), (273, 8), (277, 1), (278, size[1])]
    tags.append((279, len(content)))
    entries = b"".join(struct.pack("<HHII", tag, 4 if value > 65535 else 3, 1, value) for tag, value in tags)
    start = 8 + len(content)
    path.write_bytes(
        struct.pack("<2sHI", b"II", 42, start) + content + struct.pack("<H", len(tags)) + entries + bytes(4)
    )


FORMS: dict[str, Callable[[Path], object]] = {
    "png": lambda folder: png16(folder / "x.png", EVERY, 0),
    "tiff": lambda folder: Image.fromarray(EVERY).save(folder / "x.tif"),
    "tiff, big-endian": lambda folder: Image.frombytes("I;16B", (256, 256), EVERY.astype(">u2").tobytes()).save(
        folder / "x.tif"
    ),
    "tiff of 32 bits": lambda folder: Image.fromarray(EVERY.astype(np.int32)).save(folder / "x.tif"),
    "pgm": lambda folder: (folder / "x.pgm").write_bytes(b"P5 256 256 65535\n" + EVERY.astype(">u2").tobytes()),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_value_of_16_bits(form: str, tmp_path: Path) -> None:
    found = one(tmp_path, FORMS[form])
    assert (found == np.round(EVERY / 257)[..., None]).all()
    assert found.mean() == 127.5


@pytest.mark.parametrize("kind", [2, 4, 6])
def test_colours_of_16_bits_are_cut_or_rounded_by_pillow(kind: int, tmp_path: Path) -> None:
    channels = {2: 3, 4: 2, 6: 4}[kind]
    pixels = np.stack([EVERY] * channels, axis=2)
    if kind != 2:
        pixels[..., -1] = 65535
    found = one(tmp_path, lambda folder: png16(folder / "x.png", pixels, kind))
    assert np.abs(found - EVERY[..., None] / 257).max() < 1
    assert abs(found.mean() - 127.5) < 0.51


def test_a_dark_image_of_16_bits_stays_dark(tmp_path: Path) -> None:
    found = one(tmp_path, lambda folder: png16(folder / "x.png", EVERY[:1] % 256, 0))
    assert found.max() == 1


def test_12_bits(tmp_path: Path) -> None:
    values = np.arange(4096).reshape(-1, 2)
    packed = np.stack([values[:, 0] >> 4, (values[:, 0] & 15) << 4 | values[:, 1] >> 8, values[:, 1] & 255], axis=1)
    found = one(tmp_path, lambda folder: tiff(folder / "x.tif", (64, 64), 12, packed.astype(np.uint8).tobytes()))
    assert (found[..., 0].reshape(-1) == np.round(np.arange(4096) * 255 / 4095)).all()


@pytest.mark.parametrize(
    ("pixels", "said"),
    [
        (np.linspace(0, 1, 64).reshape(8, 8).astype(np.float32), "floating-point pixels"),
        (np.arange(64).reshape(8, 8).astype(np.int32) - 1, "32-bit pixels from -1 to 62"),
        (np.arange(64).reshape(8, 8).astype(np.int32) * 1041, "32-bit pixels from 0 to 65583"),
        (np.arange(64).reshape(8, 8).astype(np.int32), "32-bit pixels from 0 to 63"),  # of 8 bits, or of 16?
    ],
)
def test_what_has_no_range_is_refused(pixels: np.ndarray, said: str, tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=rf"x\.tif holds {said}, which have no defined range as 8- and 16-bit ones have"
    ):
        one(tmp_path, lambda folder: Image.fromarray(pixels).save(folder / "x.tif"))
    assert not list(tmp_path.glob(".reprise/*"))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK"])
def test_eight_bits_are_as_pillow_gives_them(mode: str, tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)
    picture = Image.fromarray(pixels).convert(mode)
    found = one(tmp_path, lambda folder: picture.save(folder / "x.tif"))
    assert (found == np.asarray(picture.convert("RGB"))).all()
