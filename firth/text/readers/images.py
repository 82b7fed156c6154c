"""Images from files, as bytes: PNG, JPEG and a few others, read by Pillow.

An image becomes a square: its shorter side is scaled to the size, what the longer side has more is cropped at both ends. Pixels
of an image with transparency lie on white. Decoded images are kept in the cache folder, in one file per set that is mapped into
memory, so a set may be larger than the memory. Letters: N images, H, W, C height, width, channels.
"""

from __future__ import annotations

import hashlib
import io
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from firth.errors import DataError
from firth.progress import Progress, silent
from firth.text import sealed
from firth.text.cache import cache_folder, replacing, storing, sweep_abandoned

if TYPE_CHECKING:
    from PIL.Image import Image

Bytes = NDArray[np.uint8]
ImageLike = Any  # a path, a PIL image, or an array of height × width (× 3) bytes

_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "PPM", "TIFF")  # not those that run other programs, such as EPS
_MOST_PIXELS = 100_000_000  # a small file can claim to be much larger
_MOST_BYTES = 1 << 28  # of a file
_WIDE = ("I", "I;16", "I;16L", "I;16B", "F")  # modes with more than a byte per channel
_VERSION = 1  # of how images are scaled; an older cache is not used


def read_image(image: ImageLike, size: int, where: str = "") -> Bytes:
    """image_HWC of `size` × `size` pixels; `where` is the file and line that names the image, for messages."""
    if isinstance(image, np.ndarray):
        image = _from_array(image)
    elif isinstance(image, str | Path):
        return _read_file(Path(image), size, f"{where}: " if where else "")
    return _squared(image, size)


def read_images(paths: Sequence[Path], wheres: Sequence[str], size: int, progress: Progress = silent) -> Bytes:
    """image_NHWC, read-only and mapped from the cache; the images are decoded when it has none of these files yet."""
    for path, where in zip(paths, wheres, strict=True):
        if not os.path.isfile(path):  # also False for a name that no system allows
            raise DataError(f"{where}: there is no image {path}. Paths are relative to the file that names them.")
    folder = cache_folder() / "images"
    with storing(folder):
        folder.mkdir(exist_ok=True)
    kept = folder / f"{_key(paths, size)}.bytes"
    shape = (len(paths), size, size, 3)
    if not (sealed.whole(kept) and kept.stat().st_size == np.prod(shape)):
        sweep_abandoned(folder)
        digest = hashlib.sha256()
        with replacing(kept) as temporary, temporary.open("wb") as file:
            for done, (path, where) in enumerate(zip(paths, wheres, strict=True), 1):
                pixels = read_image(path, size, where).tobytes()
                digest.update(pixels)
                file.write(pixels)
                progress("reading images", done, len(paths))
        sealed.seal(kept, digest.hexdigest())
    return np.memmap(kept, np.uint8, "r", shape=shape)


def _key(paths: Sequence[Path], size: int) -> str:
    """Changes with any file's name, length or date."""
    digest = hashlib.sha256(f"{_VERSION} {size}".encode())
    for path in paths:
        status = path.stat()
        digest.update(f"\0{path.absolute()}\0{status.st_size}\0{status.st_mtime_ns}".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:32]


def _pillow() -> Any:
    try:
        import PIL.Image
        import PIL.ImageOps
    except ImportError:
        raise DataError('images need the package Pillow. Install it with pip install "firth[images]".') from None
    return PIL


def _read_file(path: Path, size: int, where: str) -> Bytes:
    pillow = _pillow()
    try:
        size_on_disk = os.path.getsize(path)  # 0 for a device or a pipe
        if size_on_disk > _MOST_BYTES:
            raise DataError(
                f"{where}the image {path} has {size_on_disk >> 20:,} MB; the limit is {_MOST_BYTES >> 20}. Use a smaller file."
            )
        content = path.read_bytes() if size_on_disk else b""
    except OSError as error:
        raise DataError(f"{where}cannot read the image {path}: {error.strerror or error}.") from error
    if not content:
        raise DataError(f"{where}the image {path} is empty. Restore it, or remove the line.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pillow.Image.DecompressionBombWarning)  # refused below, at another limit
            with pillow.Image.open(io.BytesIO(content), formats=_FORMATS) as image:
                _refuse_huge(image, path, where)
                image.draft("RGB", (size, size))  # a JPEG is decoded at a fraction of its size, if that is enough
                return _squared(pillow.ImageOps.exif_transpose(image), size)
    except pillow.Image.DecompressionBombError as error:
        raise DataError(f"{where}the image {path} is too large ({error}).") from error
    except pillow.UnidentifiedImageError:
        raise DataError(f"{where}{path} is not a readable image; expected PNG or JPEG.") from None
    except (OSError, SyntaxError, ValueError, EOFError) as error:  # Pillow raises all of these for damaged files
        raise DataError(f"{where}the image {path} is damaged or truncated ({error}).") from error


def _refuse_huge(image: Image, path: Path, where: str) -> None:
    if image.width * image.height > _MOST_PIXELS:
        raise DataError(
            f"{where}the image {path} has {image.width:,} × {image.height:,} pixels; at most {_MOST_PIXELS // 10**6} million are "
            "read. Scale it down."
        )


def _from_array(pixels: NDArray[Any]) -> Any:
    grey, colour = pixels.ndim == 2, pixels.ndim == 3 and pixels.shape[2] == 3
    if pixels.dtype != np.uint8 or not (grey or colour) or not pixels.size:
        raise DataError(
            f"the image is an array of {pixels.dtype}, shape {pixels.shape}; expected bytes (uint8), height × width × 3"
        )
    return _pillow().Image.fromarray(pixels)


def _squared(image: Any, size: int) -> Bytes:
    pillow = _pillow()
    if image.mode in _WIDE:
        image = pillow.Image.fromarray(_to_bytes(np.asarray(image)))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        paper = pillow.Image.new("RGBA", image.size, "white")
        image = pillow.Image.alpha_composite(paper, image)
    image = image.convert("RGB")
    if image.size != (size, size):
        image = pillow.ImageOps.fit(image, (size, size), pillow.Image.Resampling.BILINEAR)
    return np.array(image, np.uint8)


def _to_bytes(grey_HW: NDArray[Any]) -> Bytes:
    """16 bits → 8 bits; other numbers by their range."""
    if grey_HW.dtype.kind in "iu" and 255 < grey_HW.max(initial=0) <= 65_535:
        return np.asarray(grey_HW >> 8, np.uint8)
    return np.asarray(np.clip(grey_HW, 0, 255), np.uint8)
