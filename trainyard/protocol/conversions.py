"""The run that prepares the SavedModel of a new version for predictions. Its execution's input names the request."""

from dataclasses import field

from trainyard.protocol.requests import PREFIX as REQUEST_PREFIX
from trainyard.protocol.requests import REQUEST, model_of
from trainyard.values.fields import Text, required
from trainyard.values.lazy import dataclass

PREFIX = "convert-"
"""The beginning of the id of such a run."""
PROGRAM = "training.programs.convert"
DATA = "model"
"""The data entry with the SavedModel."""


@dataclass(frozen=True, kw_only=True)
class ForVersion:
    """The version that a run prepares."""

    request: str = field(
        metadata=required(Text(REQUEST.pattern, "the name of a request for a version"), "The request.")
    )

    @property
    def run(self) -> str:
        """Return the id of the run, which is the name of its execution."""
        return f"{PREFIX}{self.request.removeprefix(REQUEST_PREFIX)}"


def request_of(run: str) -> str | None:
    """Return the request for the version that this run prepares; None for the id of another run."""
    request = f"{REQUEST_PREFIX}{run.removeprefix(PREFIX)}" if run.startswith(PREFIX) else ""
    return request if model_of(request) else None
