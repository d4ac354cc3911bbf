"""Served hosts: the run that serves a version of a model, its ports, and the SSM document that opens them."""

from dataclasses import field
from typing import Any

from trainyard.values.fields import Count, Text, required
from trainyard.values.lazy import dataclass

GRPC_PORT, REST_PORT = 8500, 8501
"""TensorFlow Serving's ports, on the host's loopback interface."""
PORTS = (GRPC_PORT, REST_PORT)
PROGRAM = "training.programs.serve"
DATA = "model"
"""The data entry with the version's files."""
HOST_HEADER = "X-Trainyard-Host"
"""The header of a refusal: the number of a version that only a host with TensorFlow runs."""
WAKE_SECONDS = 60
"""The pause that the function for predictions advises while a host starts."""
JOB_NAME = "serve"


@dataclass(frozen=True, kw_only=True)
class Serves:
    """The version that a run serves. The execution's input names it, and so does the row of the run."""

    model: str = field(metadata=required(Text(r"[a-z][a-z0-9-]{0,39}", "the name of a model"), "The model."))
    number: int = field(metadata=required(Count(least=1, most=99_999), "The number of the version."))


def document_of(yard: str) -> str:
    """Return the SSM document that forwards the ports of served hosts."""
    return f"{yard.lower()}-serve-port"


def name_run(model: str, number: int, start: int) -> str:
    """Return the id of the run of the nth start of a host for a version."""
    return f"{JOB_NAME}-{model}-{number}-{start:04}"


def metadata_path(model: str) -> str:
    return f"/v1/models/{model}"


def arguments_of(serves: Serves, label: str, record: str | None, idle_seconds: float) -> dict[str, Any]:
    """Return `program.args` of the run. `record` is the SHA-256 of trainyard.json."""
    digest = {"record": record} if record else {}
    return {
        "model": serves.model,
        "version": serves.number,
        "label": label,
        "idle-seconds": idle_seconds,
        **digest,
    }
