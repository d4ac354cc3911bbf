"""Rows of NumPy's files, without NumPy: .npz files with one .npy file for each array."""

from __future__ import annotations

import ast
import math
import struct
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from trainyard.client.errors import FileUnreadable

MAGIC = b"\x93NUMPY"
FORMATS = {
    "f2": "e", "f4": "f", "f8": "d", "b1": "?",
    "i1": "b", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "u2": "H", "u4": "I", "u8": "Q",
}  # fmt: skip
"""The formats of struct for NumPy's types."""


@dataclass(frozen=True)
class Array:
    """An array of a file, with the values of some rows."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    """The shape of the whole array."""
    rows: tuple[tuple[Any, ...], ...]
    """The values of each chosen row, flat."""

    @property
    def is_integer(self) -> bool:
        return self.dtype[-2] in "iu"

    @property
    def shown(self) -> str:
        return f"{self.name} {'x'.join(map(str, self.shape))}"


def read(file: Path, start: int, stop: int) -> list[Array]:
    """Return the arrays of an .npz file that have rows, with the rows from `start` to before `stop`. Raise
    FileUnreadable."""
    try:
        with zipfile.ZipFile(file) as archive:
            names = [name for name in archive.namelist() if name.endswith(".npy")]
            found = []
            for name in names:
                with archive.open(name) as stream:
                    if array := _read(name.removesuffix(".npy"), stream, start, stop):
                        found.append(array)
            return found
    except (OSError, zipfile.BadZipFile, ValueError, struct.error, SyntaxError, KeyError) as error:
        raise FileUnreadable(
            f"{file} cannot be read as .npz", str(error), "numpy.savez(FILE, image=array) writes such a file"
        ) from error


def nest(values: Sequence[Any], shape: Sequence[int]) -> Any:
    """Return flat values in the nested lists of a shape."""
    if not shape:
        return values[0]
    size = len(values) // shape[0] if shape[0] else 0
    return [nest(values[at * size : (at + 1) * size], shape[1:]) for at in range(shape[0])]


def _read(name: str, stream: IO[bytes], start: int, stop: int) -> Array | None:
    """Return an array; None if it has no rows, or rows of Python objects."""
    if stream.read(len(MAGIC)) != MAGIC:
        raise ValueError(f"{name}.npy does not begin as .npy does")
    wide = stream.read(2)[0] > 1
    (length,) = struct.unpack("<I" if wide else "<H", stream.read(4 if wide else 2))
    header = ast.literal_eval(stream.read(length).decode("latin1"))
    descr, shape = header["descr"], tuple(header["shape"])
    if not isinstance(descr, str) or descr[1:] not in FORMATS or not shape:
        return None
    if header["fortran_order"]:
        raise ValueError(f"{name} is in Fortran order; numpy.ascontiguousarray changes it")
    count = math.prod(shape[1:])
    form = struct.Struct(f"{'>' if descr[0] == '>' else '<'}{count}{FORMATS[descr[1:]]}")
    stream.seek(start * form.size, 1)
    chosen = range(start, min(stop, shape[0]))
    rows = tuple(form.unpack(stream.read(form.size)) for _ in chosen)
    return Array(name, descr, shape, rows)
