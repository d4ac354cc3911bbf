"""Answer a request about one version of a model, by any runtime that can compute its signatures."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from trainyard.command_line import command_line
from trainyard.core.prediction import answers, body
from trainyard.core.prediction.http import RefusedError, Status
from trainyard.core.prediction.routes import WITH_BODY, Act, Route
from trainyard.core.prediction.tensors import FaultError
from trainyard.protocol.export import SignatureTypes
from trainyard.values.lazy import dataclass
from trainyard.values.validation import did_you_mean

Compute = Callable[[str, SignatureTypes, Mapping[str, Any]], Mapping[str, Any]]
"""Returns the outputs of a signature for checked inputs, both as nested lists by name. Raises RefusedError."""


@dataclass(frozen=True, kw_only=True)
class Version:
    """A version that answers."""

    model: str
    number: int
    signatures: Mapping[str, SignatureTypes]
    platform: str
    """The runtime, in the words of Open Inference v2."""


def respond(version: Version, route: Route, text: str, compute: Compute) -> dict[str, Any]:
    """Return the document that answers a request with this text. Raises RefusedError."""
    if route.act in WITH_BODY:
        return predict(version, route, text, compute)[0]
    return describe(version, route)


def describe(version: Version, route: Route) -> dict[str, Any]:
    """Return the document about a version that a path without a body names. Raises RefusedError."""
    match route.act:
        case Act.STATUS:
            return answers.status(version.number)
        case Act.METADATA:
            return answers.metadata(version.model, version.number, version.signatures)
        case Act.READY:
            return {"name": version.model, "ready": True}
    with _naming(version):
        _, types = _signature(version, {})
    return answers.description(version.model, version.number, types, version.platform)


def predict(
    version: Version, route: Route, text: str, compute: Compute
) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Return the document that answers a request for predictions, and its outputs by name. Raises RefusedError."""
    with _naming(version):
        document = body.parse(text)
        is_v2 = route.act is Act.INFER
        name, types = _signature(version, document.get("parameters") or {} if is_v2 else document)
        try:
            given = (body.read_v2 if is_v2 else body.read)(document, types)
        except FaultError as fault:
            raise FaultError(f"{name}, {fault}") from fault
        outputs = compute(name, types, given.tensors)
        if is_v2:
            found = answers.of_v2(version.model, version.number, document, outputs, types)
        elif "instances" in document:
            found = answers.by_rows(outputs, len(document["instances"]))
        else:
            found = answers.by_columns(outputs)
        return found, outputs


def unknown_signature(model: str, number: int, name: object, known: Mapping[str, object]) -> RefusedError:
    return RefusedError(
        Status.NOT_FOUND,
        f"version {number} of {model} has no signature {name}; there are {', '.join(sorted(known)) or 'none'}"
        f"{did_you_mean(name, [*known])}",
    )


def _signature(version: Version, document: Mapping[str, Any]) -> tuple[str, SignatureTypes]:
    name = body.signature_name(document, version.signatures)
    if name not in version.signatures:
        raise unknown_signature(version.model, version.number, name, version.signatures)
    return name, version.signatures[name]


@contextmanager
def _naming(version: Version) -> Iterator[None]:
    """Turn a fault of the request into a refusal that names the version."""
    try:
        yield
    except FaultError as fault:
        line = command_line("request", version.model)
        said = f"{version.model} {version.number}, {fault}. {line} makes such a request"
        raise RefusedError(Status.BAD_REQUEST, said) from fault
