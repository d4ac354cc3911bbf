"""The run that prepares a SavedModel for predictions: its job, and the end of it. Pure."""

from typing import Any

from trainyard.core.model.errors import ModelRefused
from trainyard.protocol.conversions import PROGRAM, ForVersion
from trainyard.protocol.ledger.run import Outcome, RunRow
from trainyard.values import serialization

TYPES = ((1 << 30, ("m6a.large", "m6i.large", "m7i.large", "m7a.large")),)
"""Instance types by the largest model in bytes. They have 8 GiB, and TensorFlow with a conversion takes four times
the size of the model and 2 GiB."""
LARGE_TYPES = ("m6a.2xlarge", "m6i.2xlarge", "m7i.2xlarge", "m7a.2xlarge")
"""Instance types with 32 GiB, for larger models."""
LIMITS = {"hours": 1, "dollars": 2, "restarts": 3, "wait_minutes": 30}
NAME = "convert"


def input_of(version: ForVersion, model: str, size: int) -> dict[str, Any]:
    """Return the input of the execution of train. Admit of train adds the data. `size` is the model's, in bytes."""
    types = next((names for most, names in TYPES if size <= most), LARGE_TYPES)
    job = {
        "name": NAME,
        "program": {"module": PROGRAM},
        "hardware": {"instance_types": [*types]},
        "outputs": {"keep": False},
        "limits": LIMITS,
        "labels": {"model": model},
    }
    return {"job": job, "for_version": serialization.to_json(version)}


def check_end(row: RunRow) -> None:
    """Raise ModelRefused unless the run has succeeded."""
    if row.outcome is Outcome.SUCCEEDED:
        return
    raise ModelRefused(f"the run {row.run}, which prepares the model, ended as {row.outcome}: {row.reason}")
