"""The parser of job files and recipes, which avoids the surprises of YAML 1.1.

YAML 1.1 reads `1:30` as 90, `010` as 8, `1e-3` as text and `no` as false; YAML 1.2 does not. This parser reads plain
numbers as numbers and everything else as text. A bare yes, no, on or off is reported as a fault, because its meaning is
ambiguous. Aliases, tags and deep nesting are refused: jobs do not need them, and they can exhaust memory.
"""

import json
from collections.abc import Mapping
from typing import Any

from trainyard.command_line import command_line
from trainyard.protocol.keys import IMAGES
from trainyard.values.fields import Value, keys
from trainyard.values.lazy import dataclass
from trainyard.values.mappings import Record
from trainyard.values.validation import (
    NO_LOCATIONS,
    Fault,
    InputFaults,
    Section,
    any_of,
    show_value,
)

MOST_BYTES = 64 * 1024
"""The largest job file or recipe."""
DEEPEST = 16


@dataclass(frozen=True)
class NotReadable:
    """A text that cannot be parsed, with the line, the column and the reason."""

    reason: str


def read(text: bytes, *, json_only: bool) -> object | NotReadable:
    """Return the document: mappings, lists, texts, numbers, booleans and None."""
    try:
        decoded = text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return NotReadable(f"it is not UTF-8 text (byte {error.start + 1} is not)")
    return _read_json(decoded) if json_only else _read_yaml(decoded)


def parse(text: bytes, *, source: str, what: str) -> object | InputFaults:
    """Return the document in a file. `source` is the file's key and `what` its kind, both for the reason."""
    if len(text) > MOST_BYTES:
        return too_big_fault(len(text), source=source, what=what)
    found = read(text, json_only=source.lower().endswith(".json"))
    return InputFaults(source, (Fault("", found.reason),)) if isinstance(found, NotReadable) else found


def open_document(
    document: object,
    of: type[Value],
    *,
    source: str,
    what: str,
    bucket: str = "",
    locations: Mapping[str, str] = NO_LOCATIONS,
) -> tuple[Value, Section] | InputFaults:
    """Read a document as a record. Return the faults if the document is not a mapping."""
    if isinstance(document, Mapping):
        return Record(of).read_document(document, bucket=bucket, locations=locations)
    found = "it is empty" if document is None else f"it is not a mapping but {show_value(document)}"
    return InputFaults(source, (Fault("", f"{found}; {what} has the keys {any_of(tuple(keys(of)))}"),))


def too_big_fault(size: int, *, source: str, what: str) -> InputFaults:
    """Return the fault of a file that is too large to be read."""
    return InputFaults(source, (Fault("", f"it has {size} bytes; {what} has at most {MOST_BYTES}"),))


def deleted_fault(key: str, version: str | None) -> InputFaults:
    """Return the fault of a file that was deleted before it was read."""
    file = key.rpartition("/")[2]
    again = command_line("image", "bake", key) if key.startswith(IMAGES) else command_line("submit", file)
    problem = (
        f"it does not exist{f' (version {version})' if version else ''}: it was deleted before it was read, or never "
        f"uploaded; upload it: {again}, or aws s3 cp {file} s3://BUCKET/{key}"
    )
    return InputFaults(key, (Fault("", problem),))


def _read_json(text: str) -> object | NotReadable:
    try:
        document: object = json.loads(text, object_pairs_hook=_without_repeats)
    except json.JSONDecodeError as error:
        return NotReadable(f"it is not JSON: line {error.lineno}, column {error.colno}: {error.msg}")
    except ValueError as error:
        return NotReadable(f"it is not a usable JSON document: {error}")
    except RecursionError:
        return NotReadable(f"it is nested more than {DEEPEST} levels deep")
    return document


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for key, value in pairs:
        if key in document:
            raise ValueError(f"the key {json.dumps(key)} occurs twice in one mapping")
        document[key] = value
    return document


def _read_yaml(text: str) -> object | NotReadable:
    from trainyard.core.jobfile import yaml_text

    try:
        return yaml_text.load(text, deepest=DEEPEST)
    except ValueError as error:
        return NotReadable(str(error))
