"""Read and write IDX, the format of the original MNIST files, plain or gzipped. This only needs numpy.

A file is two zero bytes, the type of an element, the number of dimensions, each dimension as four bytes with the most
significant first, then the elements.
"""

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

TYPES = {
    0x08: np.dtype(np.uint8),
    0x09: np.dtype(np.int8),
    0x0B: np.dtype(">i2"),
    0x0C: np.dtype(">i4"),
    0x0D: np.dtype(">f4"),
    0x0E: np.dtype(">f8"),
}
GZIP_MAGIC = b"\x1f\x8b"
BRIGHTEST = 255.0
TRAIN = "train"
TEST = "t10k"
"""The names of the two parts in the original files."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """Labelled images."""

    images: Any
    """float32 (count, pixels), from 0 to 1."""
    labels: Any
    """int64 (count,)."""

    @property
    def count(self) -> int:
        return len(self.labels)


def read_part(folder: Path, part: str) -> Labelled:
    """Return images and labels of one part (`TRAIN` or `TEST`). Raises SystemExit if the files are not valid."""
    images_file, labels_file = (
        find_file(folder, f"{part}-images", "idx3-ubyte"),
        find_file(folder, f"{part}-labels", "idx1-ubyte"),
    )
    images, labels = read(images_file), read(labels_file)
    if images.ndim != 3 or labels.ndim != 1:
        raise SystemExit(
            f"{images_file.name} must have 3 dimensions and {labels_file.name} 1; "
            f"found {images.ndim} and {labels.ndim}: are they swapped?"
        )
    if len(images) != len(labels):
        raise SystemExit(
            f"{images_file.name} has {len(images)} images, {labels_file.name} has {len(labels)} labels: "
            "they do not belong together"
        )
    flat = images.reshape(len(images), -1).astype(np.float32) / np.float32(BRIGHTEST)
    return Labelled(flat, labels.astype(np.int64))


def find_file(folder: Path, stem: str, kind: str) -> Path:
    """Return the file with this stem, plain or gzipped, joined by a hyphen (as published) or a dot (by some tools)."""
    names = [f"{stem}{joint}{kind}{ending}" for joint in "-." for ending in ("", ".gz")]
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise SystemExit(
        f"there is no {names[0]} (or {names[1]}) in {folder}: IDX data are the four files of MNIST with their own names"
    )


def read(path: Path) -> Any:
    """Return the array in a file. Raises SystemExit if it is not a whole IDX file."""
    content = path.read_bytes()
    if content.startswith(GZIP_MAGIC):
        try:
            content = gzip.decompress(content)
        except (EOFError, OSError, zlib.error) as error:
            raise SystemExit(f"{path} is not a whole gzip file ({error}): fetch it again") from error
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in TYPES:
        raise SystemExit(f"{path} is not an IDX file: it does not begin with an IDX header")
    dtype, dimensions = TYPES[content[2]], content[3]
    header = 4 + 4 * dimensions
    shape = tuple(np.frombuffer(content[4:header], ">u4").tolist())
    size = int(np.prod(shape)) * dtype.itemsize
    if len(shape) != dimensions or len(content) != header + size:
        raise SystemExit(
            f"{path} is not a whole IDX file: it has {len(content)} bytes, but its header requires {header + size}"
        )
    return np.frombuffer(content, dtype, offset=header).reshape(shape)


def write(path: Path, array: Any) -> None:
    """Write the array. If the name ends in .gz, it is gzipped, with the same bytes every time."""
    code = next(code for code, dtype in TYPES.items() if dtype == array.dtype)
    header = bytes([0, 0, code, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    content = header + array.tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
