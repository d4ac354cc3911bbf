"""Read the body of a request: rows (`instances`), columns (`inputs`), or the tensors of Open Inference v2."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from trainyard.core.prediction.tensors import At, FaultError, Place, count_rows, show
from trainyard.core.prediction.tensors import check as check_tensor
from trainyard.protocol.export import DEFAULT_SIGNATURE, SignatureTypes, TensorType
from trainyard.values.lazy import dataclass
from trainyard.values.validation import did_you_mean

KEYS = ("instances", "inputs", "signature_name")
KEYS_OF_V2 = ("id", "inputs", "outputs", "parameters")
KEYS_OF_TENSOR = ("name", "shape", "datatype", "data", "parameters")
DATATYPES = {
    "bool": "BOOL",
    "string": "BYTES",
    "float16": "FP16",
    "bfloat16": "BF16",
    "float32": "FP32",
    "float64": "FP64",
    **{f"{sign}int{bits}": f"{sign.upper()}INT{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
"""The name of each type in Open Inference v2."""


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """The checked input tensors of a request, as nested lists by name."""

    tensors: Mapping[str, Any]
    rows: int | None
    """None if the signature has no rows."""


def parse(text: str) -> Mapping[str, Any]:
    """Return the object in a body. Raises FaultError with the line and column of a fault."""
    if not text.strip():
        raise FaultError('the request is empty; wanted {"instances": [...]} or {"inputs": {...}}')
    document = _load(text, "the request")
    if not isinstance(document, dict):
        raise FaultError(f"the request is {show(document)}; wanted an object with instances or inputs")
    return document


def parse_row(text: str) -> Any:
    """Return the instance in a line of a file. Raises FaultError."""
    return _load(text, "the line")


class _ConstantError(Exception):
    """JSON has NaN or Infinity."""


def _refuse_constant(word: str) -> NoReturn:
    raise _ConstantError(word)


DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _load(text: str, what: str) -> Any:
    try:
        return DECODER.decode(text)
    except _ConstantError as word:
        raise FaultError(f"{what} has {word}; wanted finite numbers") from word
    except json.JSONDecodeError as error:
        raise FaultError(
            f"{what} is not JSON: line {error.lineno}, column {error.colno}: {error.msg}"
        ) from error
    except RecursionError as error:
        raise FaultError(f"{what} has lists in lists that are too deep for any tensor") from error
    except ValueError as error:
        raise FaultError(f"{what} has a number that is too long: {error}") from error


def signature_name(document: Mapping[str, Any], known: Mapping[str, object]) -> str:
    """Return the name of the signature, which the model may lack. Raises FaultError for a value of another type."""
    name = document.get("signature_name") or (next(iter(known)) if len(known) == 1 else DEFAULT_SIGNATURE)
    if not isinstance(name, str):
        raise FaultError(f"signature_name: found {show(name)}; wanted a text")
    return name


def read(document: Mapping[str, Any], types: SignatureTypes) -> Inputs:
    """Read a request to TensorFlow Serving. Raises FaultError."""
    _check_names("the request", document, KEYS, needed=())
    given = [key for key in ("instances", "inputs") if key in document]
    if len(given) != 1:
        found = "both instances and inputs" if given else "neither instances nor inputs"
        raise FaultError(f"the request has {found}; wanted one of them")
    places = (_by_rows if given == ["instances"] else _by_columns)(document[given[0]], types)
    return _checked(places)


def read_v2(document: Mapping[str, Any], types: SignatureTypes) -> Inputs:
    """Read a request to Open Inference v2. Raises FaultError."""
    _check_names("the request", document, KEYS_OF_V2, needed=("inputs",))
    given = document["inputs"]
    if not isinstance(given, list) or not given or not all(isinstance(each, dict) for each in given):
        raise FaultError(f"inputs: found {show(given)}; wanted a list of tensors")
    named = {}
    for number, each in enumerate(given):
        at = f"inputs[{number}]"
        if "data" not in each and "binary_data_size" in (each.get("parameters") or {}):
            raise FaultError(
                f"{at}: found binary data; wanted data as JSON (binary_data=False in tritonclient)"
            )
        _check_names(at, each, KEYS_OF_TENSOR, needed=KEYS_OF_TENSOR[:-1])
        named[each["name"] if isinstance(each["name"], str) else show(each["name"])] = (at, each)
    _check_names("inputs", named, types.inputs, needed=types.inputs)
    return _checked({name: _of_v2(at, each, types.inputs[name]) for name, (at, each) in named.items()})


def _checked(places: Mapping[str, Place]) -> Inputs:
    tensors = {name: check_tensor(place) for name, place in places.items()}
    return Inputs(tensors=tensors, rows=count_rows(places))


def _by_rows(instances: Any, types: SignatureTypes) -> dict[str, Place]:
    if not isinstance(instances, list) or not instances:
        raise FaultError(f"instances: found {show(instances)}; wanted a list of rows")
    if whole := next((name for name, each in types.inputs.items() if each.shape == ()), None):
        raise FaultError(f'instances: the input {whole} has no rows; wanted {{"inputs": {{...}}}}')
    is_only = len(types.inputs) == 1
    named = [not is_only or (isinstance(row, dict) and [*row] != ["b64"]) for row in instances]
    for number, (row, has_names) in enumerate(zip(instances, named, strict=True)):
        if has_names and not isinstance(row, dict):
            names = ", ".join(types.inputs)
            raise FaultError(f"instances[{number}]: found {show(row)}; wanted an object with {names}")
        if has_names:
            _check_names(f"instances[{number}]", row, types.inputs, needed=types.inputs)
    return {
        name: Place(
            each,
            _place_in_rows(name, named),
            [row[name] if has else row for row, has in zip(instances, named, strict=True)],
        )
        for name, each in types.inputs.items()
    }


def _place_in_rows(name: str, named: Sequence[bool]) -> At:
    def at(index: tuple[int, ...]) -> str:
        if not index:
            return "instances"
        row, *rest = index
        return f"instances[{row}]{f'.{name}' if named[row] else ''}{_brackets(rest)}"

    return at


def _by_columns(inputs: Any, types: SignatureTypes) -> dict[str, Place]:
    is_bare = not isinstance(inputs, dict) or [*inputs] == ["b64"]
    if is_bare and len(types.inputs) == 1:
        ((name, only),) = types.inputs.items()
        return {name: Place(only, lambda index: f"inputs{_brackets(index)}", inputs)}
    if is_bare:
        raise FaultError(f"inputs: found {show(inputs)}; wanted an object with {', '.join(types.inputs)}")
    _check_names("inputs", inputs, types.inputs, needed=types.inputs)
    return {name: Place(each, _place_in_column(name), inputs[name]) for name, each in types.inputs.items()}


def _place_in_column(name: str) -> At:
    return lambda index: f"inputs.{name}{_brackets(index)}"


def _of_v2(at: str, given: Mapping[str, Any], types: TensorType) -> Place:
    datatype, shape, data = given["datatype"], given["shape"], given["data"]
    if datatype != (wanted := DATATYPES.get(types.dtype, types.dtype)):
        raise FaultError(f"{at}.datatype: found {show(datatype)}; wanted {wanted}")
    if not isinstance(shape, list) or not all(type(each) is int and each >= 0 for each in shape):
        raise FaultError(f"{at}.shape: found {show(shape)}; wanted a list of integers")
    if not isinstance(data, list):
        raise FaultError(f"{at}.data: found {show(data)}; wanted a list")
    if any(isinstance(each, list) for each in data):
        return Place(types, lambda index: f"{at}.data{_brackets(index)}", data)
    if len(data) != math.prod(shape):
        raise FaultError(
            f"{at}.data: found {show(data)}; wanted {math.prod(shape)}, as its shape {shape} has"
        )
    return Place(types, lambda index: f"{at}.data, element {_brackets(index)}", _nest(data, shape))


def _nest(data: list[Any], shape: Sequence[int]) -> Any:
    """Return a flat list in the nested lists of a shape."""
    if not shape:
        return data[0]
    for size in reversed(shape[1:]):
        data = [data[start : start + size] for start in range(0, len(data), size)] if size else []
    return data


def _check_names(at: str, given: Mapping[str, Any], known: Iterable[str], *, needed: Iterable[str]) -> None:
    """Raise FaultError for a key that is unknown or missing."""
    names = [*known]
    for name in given:
        if name not in names:
            raise FaultError(
                f"{at}: found the key {show(name)}; wanted {', '.join(names)}{did_you_mean(name, names)}"
            )
    if missing := [name for name in needed if name not in given]:
        raise FaultError(f"{at}: missing {', '.join(missing)}; wanted {', '.join(names)}")


def _brackets(index: Sequence[int]) -> str:
    return "".join(f"[{each}]" for each in index)
