"""IDX, the format of the original MNIST files: read and written with numpy alone, plain or gzipped.

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
"""How the original files call their two parts."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """`images`: float32 (count, pixels), from 0 to 1; `labels`: int64 (count,)."""

    images: Any
    labels: Any

    @property
    def count(self) -> int:
        return len(self.labels)


def labelled(folder: Path, part: str) -> Labelled:
    """Images and labels of one part (`TRAIN` or `TEST`). Raises SystemExit when they are not what they should be."""
    images_file, labels_file = (
        found(folder, f"{part}-images", "idx3-ubyte"),
        found(folder, f"{part}-labels", "idx1-ubyte"),
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


def found(folder: Path, stem: str, kind: str) -> Path:
    """The file of this stem, plain or gzipped, joined with a hyphen (as published) or a dot (as some unpackers do)."""
    names = [f"{stem}{joint}{kind}{ending}" for joint in "-." for ending in ("", ".gz")]
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise SystemExit(
        f"there is no {names[0]} (or {names[1]}) in {folder}: IDX data are the four files of MNIST by their own names"
    )


def read(path: Path) -> Any:
    """The array that the file holds. Raises SystemExit when it is no whole IDX file."""
    content = path.read_bytes()
    if content.startswith(GZIP_MAGIC):
        try:
            content = gzip.decompress(content)
        except (EOFError, OSError, zlib.error) as error:
            raise SystemExit(f"{path} is no whole gzip file ({error}): fetch it again") from error
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in TYPES:
        raise SystemExit(f"{path} is no IDX file: it does not begin with an IDX header")
    dtype, dimensions = TYPES[content[2]], content[3]
    header = 4 + 4 * dimensions
    shape = tuple(np.frombuffer(content[4:header], ">u4").tolist())
    size = int(np.prod(shape)) * dtype.itemsize
    if len(shape) != dimensions or len(content) != header + size:
        raise SystemExit(
            f"{path} is no whole IDX file: its header says {header + size} bytes, it has {len(content)}"
        )
    return np.frombuffer(content, dtype, offset=header).reshape(shape)


def write(path: Path, array: Any) -> None:
    """Write the array; gzipped (the same bytes every time) when the name ends in .gz."""
    code = next(code for code, dtype in TYPES.items() if dtype == array.dtype)
    header = bytes([0, 0, code, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    content = header + array.tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
