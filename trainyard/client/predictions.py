"""Requests for predictions: written from files, sent to the yard's function, and answered."""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from botocore.exceptions import ClientError

from trainyard.client import arrays
from trainyard.client.arrays import Array
from trainyard.client.bucket import Bucket
from trainyard.client.errors import FileUnreadable, HostNeeded, ModelNotFound, NotPredicted
from trainyard.command_line import command_line
from trainyard.protocol.export import DEFAULT_SIGNATURE, SignatureTypes, TensorType
from trainyard.protocol.ledger.models import DEFAULT, VersionRow
from trainyard.protocol.predictions import (
    EXPLAIN_HEADER,
    KEY_HEADER,
    MARGIN_BYTES,
    MOST_BYTES,
    VERSION_HEADER,
    event_of,
    function_of,
    path_of,
)
from trainyard.protocol.serving import HOST_HEADER
from trainyard.values.quantities import format_bytes

if TYPE_CHECKING:
    from trainyard.client.deployment import Deployment

NO_ANSWER = "no prediction was made"
S3 = "s3://"


@dataclass(frozen=True)
class Prediction:
    """The answer of a version."""

    model: str
    version: int
    predictions: Any
    """A list with the answer to each row, or the output tensors of a request with `inputs`."""
    explained: Mapping[str, Any] | None = None
    """How the request was answered: the function's explanation, with `alias`, `sent_bytes`, `answer_bytes` and
    `total_milliseconds`."""


def send(
    yard: Deployment,
    model: str,
    document: Mapping[str, Any],
    version: str | None = None,
    *,
    key: str | None = None,
    explain: bool = False,
) -> Prediction:
    """Send a request in the format of TensorFlow Serving to the function. The `key` decides between the default version
    and a canary. Raise HostNeeded for a version that only TensorFlow runs, or NotPredicted with the function's
    reason."""
    body = json.dumps(document)
    headers = {} if key is None else {KEY_HEADER: key}
    headers |= {EXPLAIN_HEADER: "true"} if explain else {}
    event = json.dumps(event_of("POST", quote(path_of(model, version)), body, headers))
    if len(event) > MOST_BYTES - MARGIN_BYTES:
        raise NotPredicted(
            f"the request has {format_bytes(len(event))}",
            f"Lambda accepts {format_bytes(MOST_BYTES)}, so {NO_ANSWER}",
            "send fewer rows at once",
        )
    began = time.perf_counter()
    answer = _invoke(yard, event)
    milliseconds = round(1000 * (time.perf_counter() - began), 1)
    found = json.loads(answer["body"])
    if number := answer["headers"].get(HOST_HEADER):
        raise HostNeeded(found["error"], NO_ANSWER, command_line("serve", model), int(number))
    if "error" in found:
        raise NotPredicted(found["error"], NO_ANSWER, next_step(model, answer["statusCode"]))
    rows = read_answer(found)
    headers, explained = answer["headers"], None
    if explain:
        explained = {
            **json.loads(headers.get(EXPLAIN_HEADER, "{}")),
            "alias": None if version else DEFAULT,
            "sent_bytes": len(event),
            "answer_bytes": len(answer["body"]),
            "total_milliseconds": milliseconds,
        }
    return Prediction(model, int(headers[VERSION_HEADER]), rows, explained)


def read_answer(found: Mapping[str, Any]) -> Any:
    """Return the predictions, or the output tensors of a request with `inputs`."""
    return found["predictions"] if "predictions" in found else found["outputs"]


def read_instances(name: str, text: str) -> dict[str, Any]:
    """Return the request in a text: a JSON object with `instances` or `inputs`, or one instance a line. Raise
    FileUnreadable with the line and column of a fault."""
    document, fault = None, None
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        fault = error
    except (ValueError, RecursionError):
        pass  # the lines below name the fault
    if isinstance(document, dict) and document.keys() & {"instances", "inputs"}:
        return document
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not lines:
        raise _unreadable(name, "is empty")
    try:
        return {"instances": [_instance(name, number, line) for number, line in lines]}
    except FileUnreadable:
        if fault and fault.lineno > 1 and not _is_json(lines[0][1]):  # an object of several lines
            said = f"line {fault.lineno}, column {fault.colno}: {fault.msg}"
            raise _unreadable(name, said) from fault
        raise


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def find_signature(row: VersionRow, model: str, name: str | None = None) -> tuple[str, SignatureTypes]:
    """Return a signature of the version, by default its only one or `serving_default`. Raise ModelNotFound."""
    name = name or (next(iter(row.signatures)) if len(row.signatures) == 1 else DEFAULT_SIGNATURE)
    if name in row.signatures:
        return name, row.signatures[name]
    raise ModelNotFound(
        f"version {row.shown} of {model} has no signature {name}",
        f"its signatures: {', '.join(row.signatures) or 'none'}",
        command_line("models", "show", model),
    )


def make_request(
    model: str, signature: str, types: SignatureTypes, found: Sequence[Array], divide: float = 1.0
) -> dict[str, Any]:
    """Return a request with rows of arrays, in the shapes of a signature. An array belongs to the input of its name, or
    to the only input whose rows have as many values. Raise FileUnreadable."""
    columns = {name: _column(name, each, types, found, divide) for name, each in types.inputs.items()}
    rows = len(next(iter(columns.values()), ()))
    if not rows:
        shown = ", ".join(each.shown for each in found) or "no arrays"
        raise FileUnreadable(
            "the file has no such rows", f"it has {shown}", "name other rows, such as --rows 0:3"
        )
    only = next(iter(columns)) if len(columns) == 1 else None
    instances = (
        columns[only]
        if only
        else [{name: values[row] for name, values in columns.items()} for row in range(rows)]
    )
    return {"signature_name": signature, "instances": instances}


def unscaled(types: SignatureTypes, found: Sequence[Array]) -> list[str]:
    """Return a sentence for each array of integers from 0 to 255 whose input is a float."""
    is_float = any("float" in each.dtype for each in types.inputs.values())
    return [
        f"{each.name}: integers up to {largest} are sent as they are; --divide {largest} scales them to 0 to 1"
        for each in found
        if is_float and each.is_integer and (largest := max(map(max, each.rows), default=0)) == 255
    ]


def read_arrays(yard: Deployment, source: str, start: int, stop: int) -> list[Array]:
    """Return the arrays of a local .npz file or of one in S3. Raise FileUnreadable."""
    if not source.startswith(S3):
        return arrays.read(Path(source).expanduser(), start, stop)
    name, _, key = source.removeprefix(S3).partition("/")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.npz"
        with file.open("wb") as written:
            try:
                for piece in Bucket(yard.session, name).pieces(key):
                    written.write(piece)
            except ClientError as error:
                code = error.response["Error"]["Code"]
                raise FileUnreadable(
                    f"{source} cannot be read ({code})", "nothing was written", f"aws s3 ls {source}"
                ) from error
        return arrays.read(file, start, stop)


def _invoke(yard: Deployment, event: str) -> Any:
    function = function_of(yard.name)
    try:
        answer = yard.session.client("lambda").invoke(FunctionName=function, Payload=event.encode())
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code == "ResourceNotFoundException":
            raise NotPredicted(
                f"this yard lacks the function {function}", NO_ANSWER, command_line("yard", "upgrade")
            ) from error
        raise NotPredicted(f"Lambda refused the request ({code})", NO_ANSWER, "try again") from error
    found = json.loads(answer["Payload"].read())
    if "FunctionError" in answer:
        raise NotPredicted(
            f"the function {function} failed: {found.get('errorMessage', found)}",
            NO_ANSWER,
            f"aws logs tail /{yard.name.lower()}/functions/predict",
        )
    return found


def next_step(model: str, status: int) -> str:
    match status:
        case 400:
            return command_line("request", model, "--from", "FILE.npz")
        case 413:
            return "send fewer rows at once"
    return command_line("models", "show", model)


def _instance(name: str, number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise _unreadable(name, f"line {number}, column {error.colno}: {error.msg}") from error
    except RecursionError as error:
        raise _unreadable(name, f"line {number}: lists in lists that are too deep for any tensor") from error
    except ValueError as error:
        raise _unreadable(name, f"line {number}: {error}") from error


def _unreadable(name: str, why: str) -> FileUnreadable:
    return FileUnreadable(
        f"{name} is not JSON ({why})" if why != "is empty" else f"{name} is empty",
        "nothing was sent; a request is one instance a line, or an object with instances or inputs",
        command_line("request", "MODEL", "--from", "FILE.npz"),
    )


def _column(
    name: str, tensor: TensorType, types: SignatureTypes, found: Sequence[Array], divide: float
) -> list[Any]:
    shape = [*(tensor.shape or ())][1:]
    array = next((each for each in found if each.name == name), None) or _only(
        each for each in found if len(types.inputs) == 1 and _shape_of(each, shape) is not None
    )
    row_shape = _shape_of(array, shape) if array else None
    if array is None or row_shape is None:
        wanted = f"{name} with rows of {'x'.join('any' if each is None else str(each) for each in shape) or 'a value'}"
        shown = ", ".join(each.shown for each in found) or "no arrays of numbers"
        raise FileUnreadable(
            f"the file has {shown}, and none for {name}",
            f"the signature wants {wanted}",
            f"numpy.savez(FILE, {name}=array) writes such a file",
        )
    is_float = "float" in tensor.dtype
    return [
        arrays.nest([value / divide for value in row] if is_float and divide != 1.0 else row, row_shape)
        for row in array.rows
    ]


def _shape_of(array: Array, shape: Sequence[int | None]) -> Sequence[int] | None:
    """Return the shape of a row of the array as an input of this shape; None if the values do not fit."""
    own = array.shape[1:]
    if None in shape:
        fits = len(own) == len(shape) and all(
            each in (None, size) for each, size in zip(shape, own, strict=True)
        )
        return own if fits else None
    sizes = [each for each in shape if each is not None]
    return sizes if math.prod(sizes) == math.prod(own) else None


def _only(found: Iterable[Array]) -> Array | None:
    """Return the array if there is only one."""
    listed = [*found]
    return listed[0] if len(listed) == 1 else None
