"""Requests to the function for predictions: HTTP in the form of a function URL's event, sent by lambda:Invoke."""

from collections.abc import Mapping
from typing import Any

from trainyard.values.lazy import dataclass

MOST_BYTES = 6 * 1024 * 1024
"""Lambda's limit for a request and for an answer."""
MARGIN_BYTES = 64 * 1024
"""The part of the limit that the event around a body may need."""
VERSION_HEADER = "X-Trainyard-Version"
"""The header of an answer with the number of the version."""

KEY_HEADER = "X-Trainyard-Key"
"""The header of a request whose value decides between the default version and a canary, such as the name of a
customer. Without it, the body decides."""
EXPLAIN_HEADER = "X-Trainyard-Explain"
"""The header of a request that asks how it is answered, and of the answer with an object of JSON: `version`, `label`,
`canary`, `signature`, `inputs` (type and shape as they were read), `loaded` (true if this request loaded the version),
`milliseconds`."""
RETRY_HEADER = "Retry-After"
"""The header of a refusal with the number of seconds after which the request may succeed."""


def function_of(yard: str) -> str:
    """Return the name of the function of a yard."""
    return f"{yard.lower()}-predict"


def path_of(model: str, version: str | None) -> str:
    """Return the path for predictions of a version (a number or a label), or of the default version."""
    return f"/v1/models/{model}{f'/versions/{version}' if version else ''}:predict"


def url_of(base: str, model: str) -> str:
    """Return the URL for predictions of the default version, below the URL of a yard's function. It has no colon, which
    some versions of curl sign wrongly."""
    return f"{base.rstrip('/')}/v1/models/{model}/predict"


def event_of(method: str, path: str, body: str, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
    context = {"http": {"method": method}}
    return {"rawPath": path, "requestContext": context, "body": body, "headers": dict(headers or {})}


@dataclass(frozen=True, kw_only=True)
class GoldenCheck:
    """The answer about the golden rows of a version that is being made."""

    difference: str | None = None
    """The first difference from TensorFlow's answers at the export, with the signature."""
    unchecked: str | None = None
    """Why the function answered none of the golden rows. The first host that serves the version checks it."""


def golden_event(model: str, number: int) -> dict[str, Any]:
    """Return the event of the workflow version, which asks for a GoldenCheck of a version. A function URL's event has
    a `version` of its own."""
    return {"golden": True, "model": model, "number": number}
