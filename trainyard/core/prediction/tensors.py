"""Check the tensors of a request against a signature, before the model runs. Values are nested lists of JSON."""

import base64
import binascii
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from trainyard.protocol.export import TensorType
from trainyard.values.quantities import format_count
from trainyard.values.text import printable

INTEGERS = {f"{sign}int{bits}": bits for sign in ("", "u") for bits in (8, 16, 32, 64)}
FLOATS = {
    "float16": 65504.0,
    "bfloat16": 3.38e38,
    "float32": 3.4028235e38,
    "float64": math.inf,
    "half": 65504.0,
}
"""The largest number of each type."""
MOST_SHOWN = 40

At = Callable[[tuple[int, ...]], str]
"""Names the place of a value by its indexes, such as `instances[2].image[0]`."""


class FaultError(Exception):
    """A value does not fit the signature. The message has the place, what was found, and what is wanted."""


class Place(NamedTuple):
    """A tensor in a request."""

    tensor: TensorType
    at: At
    value: Any


def check(place: Place) -> Any:
    """Return the value of a tensor, with texts as bytes. Raises FaultError at the first value that does not fit."""
    tensor = place.tensor
    depth = _depth(place.value) if tensor.shape is None else len(tensor.shape)
    dims: Sequence[int | None] = (None,) * depth if tensor.shape is None else tensor.shape
    checked = _Check(place, [*dims])
    return place.value if checked.fits(place.value) else checked.check(place.value, ())


def describe(tensor: TensorType) -> str:
    """Return type and shape as in errors: `float32, shape (any, 784)`."""
    if tensor.shape is None:
        return f"{tensor.dtype}, any shape"
    dims = ["any" if each is None else str(each) for each in tensor.shape]
    return f"{tensor.dtype}, shape ({', '.join(dims)}{',' if len(dims) == 1 else ''})"


def count_rows(places: Mapping[str, Place]) -> int | None:
    """Return the number of rows of a request; None if the signature has no rows. Raises FaultError if its tensors have
    different numbers of rows, or none."""
    rows = {name: len(each.value) for name, each in places.items() if each.tensor.has_batch}
    if not rows:
        return None
    (first, count), *others = rows.items()
    for name, other in others:
        if other != count:
            wanted = f"{count}, as {places[first].at(())} has"
            raise FaultError(f"{places[name].at(())}: found {format_count(other, 'row')}; wanted {wanted}")
    if not count:
        raise FaultError(f"{places[first].at(())}: found no rows; wanted at least one")
    return count


def show(value: object) -> str:
    """Describe a value of JSON briefly."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case list():
            return f"a list of {format_count(len(value), _noun(value))}" if value else "an empty list"
        case dict():
            return f"an object with {', '.join(map(str, list(value)[:4])) or 'no keys'}"[: 2 * MOST_SHOWN]
        case str():
            text = printable(value)
            return f'the text "{text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + "..."}"'
        case _:
            text = repr(value)
            return text if len(text) <= MOST_SHOWN else f"a number of {len(text)} digits"


class _Check:
    def __init__(self, place: Place, sizes: list[int | None]) -> None:
        self._place, self._sizes = place, sizes
        self._dtype = place.tensor.dtype

    def check(self, value: Any, index: tuple[int, ...]) -> Any:
        depth = len(index)
        if depth == len(self._sizes):
            return self._scalar(value, index)
        size = self._sizes[depth]
        if not isinstance(value, list):
            raise self._fault(index, value, "a list" if size is None else f"a list of {size}")
        if size is not None and len(value) != size:
            raise self._fault(index, value, str(size))
        if depth:
            self._sizes[depth] = len(value)  # rows of a free length must have equal lengths
        return [self.check(each, (*index, number)) for number, each in enumerate(value)]

    def fits(self, value: Any) -> bool:
        """Return True if this is a tensor of numbers, and all of them fit. Python's own functions look at each number,
        because a loop would take longer than the model."""
        level = [value]
        for size in self._sizes:
            if set(map(type, level)) != {list}:
                return False
            lengths = set(map(len, level))
            if len(lengths) > 1 or (size is not None and lengths != {size}):
                return False
            level = [*chain.from_iterable(level)]
        return self._are_in_range(level)

    def _are_in_range(self, values: list[Any]) -> bool:
        kinds = set(map(type, values))
        if not kinds:
            return True
        if self._dtype in FLOATS and kinds <= {float, int}:
            most = _largest(FLOATS[self._dtype])
            return bool(-most <= min(values) and max(values) <= most)
        if self._dtype in INTEGERS and kinds == {int}:
            low, high = _range(self._dtype)
            return bool(low <= min(values) and max(values) <= high)
        return False

    def _scalar(self, value: Any, index: tuple[int, ...]) -> Any:
        dtype = self._dtype
        if dtype == "string":
            return self._bytes(value, index)
        if dtype == "bool":
            if not isinstance(value, bool):
                raise self._fault(index, value, "true or false")
            return value
        if dtype not in FLOATS and dtype not in INTEGERS:
            raise self._fault(index, value, f"a type that JSON has, and {dtype} is none")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._fault(index, value, "a number")
        if dtype in FLOATS:
            if not abs(value) <= _largest(FLOATS[dtype]):
                raise self._fault(index, value, "a finite number of this type")
            return value
        low, high = _range(dtype)
        if not isinstance(value, int):
            raise self._fault(index, value, "an integer")
        if not low <= value <= high:
            raise self._fault(index, value, f"an integer from {low} to {high}")
        return value

    def _bytes(self, value: Any, index: tuple[int, ...]) -> bytes:
        match value:
            case str():
                return value.encode(errors="surrogatepass")
            case {"b64": str(text), **others} if not others:
                try:
                    return base64.b64decode(text, validate=True)
                except binascii.Error as error:
                    raise self._fault(index, text, f"base64 ({error})", within=".b64") from error
        raise self._fault(index, value, 'a text, or {"b64": ...} for bytes')

    def _fault(self, index: tuple[int, ...], value: object, wanted: str, within: str = "") -> FaultError:
        kind = describe(self._place.tensor)
        return FaultError(f"{self._place.at(index)}{within}: found {show(value)}; wanted {wanted} ({kind})")


def _largest(most: float) -> float:
    """Return the largest finite number up to `most`."""
    return min(most, 1.7976931348623157e308)


def _range(dtype: str) -> tuple[int, int]:
    bits = INTEGERS[dtype]
    return (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _depth(value: Any) -> int:
    depth = 0
    while isinstance(value, list):
        depth, value = depth + 1, value[0] if value else None
    return depth


def _noun(values: list[Any]) -> str:
    kinds = {type(each) for each in values}
    return "number" if kinds <= {int, float} else "list" if kinds == {list} else "value"
