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
REFUSED = 65
"""The exit code of the program if its version must not be served: a file was changed, or an answer to a golden row
differs."""
REFUSAL = "not served: "
"""The beginning of the program's last line then. The reason follows."""
WAKE_SECONDS = 60
"""The pause that the function for predictions advises while a host starts."""
JOB_NAME = "serve"
MOST_NAME = 40
"""The most characters of a job's name."""


@dataclass(frozen=True, kw_only=True)
class ServeHow:
    """How a host serves a version."""

    instance_types: tuple[str, ...] = ()
    """Empty: the default of job files."""
    market: str | None = None
    """None: the default of job files."""
    idle_minutes: float = 15.0
    """The host ends after this time without an answered prediction."""
    hours: float = 12.0
    """The longest duration of the run."""
    dollars: float = 20.0
    """The most that the run may cost."""


@dataclass(frozen=True, kw_only=True)
class Serves:
    """The version that a run serves. The execution's input names it, and so does the row of the run."""

    model: str = field(metadata=required(Text(r"[a-z][a-z0-9-]{0,39}", "the name of a model"), "The model."))
    number: int = field(metadata=required(Count(least=1, most=99_999), "The number of the version."))
    submitter: str = field(
        metadata=required(Text(r"\S{1,128}", "the name of a user"), "The user who requested the host.")
    )


def document_of(yard: str) -> str:
    """Return the SSM document that forwards the ports of served hosts."""
    return f"{yard.lower()}-serve-port"


def refusal_in(exit_code: int | None, tail: str) -> str | None:
    """Return why the program does not serve its version; None for another end. `tail` has its last lines."""
    lines = [line for line in tail.splitlines() if line.startswith(REFUSAL)]
    return lines[-1].removeprefix(REFUSAL) if exit_code == REFUSED and lines else None


def name_run(model: str, number: int, start: int) -> str:
    """Return the id of the run of the nth start of a host for a version."""
    return f"{JOB_NAME}-{model}-{number}-{start:04}"


def name_job(model: str) -> str:
    """Return the name of the job that serves a model."""
    return f"{JOB_NAME}-{model}"[:MOST_NAME].rstrip("-")


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
