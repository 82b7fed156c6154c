"""Image files: what is read, and what is said of files that are none."""

from __future__ import annotations

import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from firth.errors import DataError
from firth.figures.image_attention import png
from firth.text.readers import images
from firth.text.readers.images import read_image, read_images

PIXELS = np.random.default_rng(0).integers(0, 256, (12, 12, 3), dtype=np.uint8)


def test_a_png_of_the_right_size_is_read_as_it_is(tmp_path: Path) -> None:
    Image.fromarray(PIXELS).save(tmp_path / "a.png")
    assert np.array_equal(read_image(tmp_path / "a.png", 12), PIXELS)
    assert np.array_equal(read_image(str(tmp_path / "a.png"), 12), PIXELS)
    assert np.array_equal(read_image(Image.fromarray(PIXELS), 12), PIXELS)
    assert np.array_equal(read_image(PIXELS, 12), PIXELS)


def test_our_own_png_is_what_pillow_reads(tmp_path: Path) -> None:
    (tmp_path / "own.png").write_bytes(png(PIXELS[:5]))
    assert np.array_equal(np.asarray(Image.open(tmp_path / "own.png")), PIXELS[:5])


def test_a_jpeg_is_close_to_its_original(tmp_path: Path) -> None:
    smooth = np.linspace(0, 255, 32 * 32 * 3).reshape(32, 32, 3).astype(np.uint8)
    Image.fromarray(smooth).save(tmp_path / "a.jpg", quality=95)
    assert np.abs(read_image(tmp_path / "a.jpg", 32).astype(int) - smooth).mean() < 4


def test_the_middle_of_a_wide_image_is_kept(tmp_path: Path) -> None:
    wide = np.zeros((10, 30, 3), np.uint8)
    wide[:, 10:20] = 200
    Image.fromarray(wide).save(tmp_path / "wide.png")
    assert (read_image(tmp_path / "wide.png", 10) == 200).all()


def test_a_large_image_is_scaled_down_by_averages(tmp_path: Path) -> None:
    checks = np.indices((64, 64)).sum(0) % 2 * 255
    Image.fromarray(checks.astype(np.uint8)).save(tmp_path / "checks.png")
    assert np.abs(read_image(tmp_path / "checks.png", 8).astype(int) - 128).max() < 8


def test_grey_transparent_palette_and_sixteen_bit_images_become_rgb(tmp_path: Path) -> None:
    clear = Image.new("RGBA", (8, 8), (255, 0, 0, 0))
    clear.save(tmp_path / "clear.png")
    assert (read_image(tmp_path / "clear.png", 8) == 255).all()
    Image.new("L", (8, 8), 77).save(tmp_path / "grey.png")
    assert (read_image(tmp_path / "grey.png", 8) == 77).all()
    Image.new("RGB", (8, 8), (10, 20, 30)).convert("P", palette=Image.Palette.ADAPTIVE).save(tmp_path / "palette.png")
    assert np.abs(read_image(tmp_path / "palette.png", 8).astype(int) - (10, 20, 30)).max() <= 8
    Image.fromarray(np.full((8, 8), 0x9A00, np.uint16)).save(tmp_path / "deep.png")
    assert (read_image(tmp_path / "deep.png", 8) == 0x9A).all()


def test_the_camera_s_orientation_is_obeyed(tmp_path: Path) -> None:
    half = np.zeros((8, 8, 3), np.uint8)
    half[:4] = 255
    exif = Image.Exif()
    exif[0x0112] = 3  # turned by 180°
    Image.fromarray(half).save(tmp_path / "turned.png", exif=exif)
    assert (read_image(tmp_path / "turned.png", 8)[4:] == 255).all()


def bomb(path: Path, side: int) -> Path:
    """A file of a few bytes that claims to be huge."""
    chunks = (b"IHDR" + struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0), b"IDAT" + zlib.compress(bytes(1000)))
    packed = (struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk)) for chunk in chunks)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(packed))
    return path


def test_files_that_are_no_images_are_named_with_the_line_that_names_them(tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("not an image")
    (tmp_path / "empty.png").touch()
    Image.fromarray(PIXELS).save(tmp_path / "whole.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "whole.png").read_bytes()[:200])
    bomb(tmp_path / "bomb.png", 60_000)
    bomb(tmp_path / "large.png", 11_000)
    (tmp_path / "page.eps").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n")
    for name, message in {
        "text.png": "is not a readable image; expected PNG or JPEG",
        "empty.png": "is empty",
        "cut.png": "is damaged or truncated",
        "bomb.png": "is too large",
        "large.png": "has 11,000 × 11,000 pixels; at most 100 million are read",
        "page.eps": "is not a readable image",
        "gone.png": "cannot read the image .*: No such file",
    }.items():
        with pytest.raises(DataError, match=rf"^captions.tsv:7: .*{message}"):
            read_image(tmp_path / name, 8, "captions.tsv:7")


def test_an_array_that_is_no_image_is_refused() -> None:
    with pytest.raises(DataError, match=r"an array of float64, shape \(8, 8, 3\); expected bytes"):
        read_image(np.zeros((8, 8, 3)), 8)
    with pytest.raises(DataError, match=r"shape \(3, 8, 8\)"):
        read_image(np.zeros((3, 8, 8), np.uint8), 8)


def test_decoded_images_are_kept_and_read_again_when_a_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRTH_CACHE", str(tmp_path / "cache"))
    paths = [tmp_path / f"{n}.png" for n in range(3)]
    for n, path in enumerate(paths):
        Image.new("RGB", (8, 8), (n, n, n)).save(path)
    first = read_images(paths, ["here"] * 3, 8)
    assert first[:, 0, 0, 0].tolist() == [0, 1, 2]
    assert not first.flags.writeable
    with monkeypatch.context() as patch:
        patch.setattr(images, "read_image", lambda *given: pytest.fail("decoded a second time"))
        assert np.array_equal(read_images(paths, ["here"] * 3, 8), first)
    Image.new("RGB", (9, 8), (7, 7, 7)).save(paths[1])
    assert read_images(paths, ["here"] * 3, 8)[:, 0, 0, 0].tolist() == [0, 7, 2]


def test_without_pillow_the_error_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(DataError, match=r'pip install "firth\[images\]"'):
        read_image("picture.png", 8)
