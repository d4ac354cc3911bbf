"""The parts of a run's results, as `get` names them."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from trainyard.client import Run


class Part(StrEnum):
    """A part of a run's results, the most useful first."""

    MODEL = "model"
    OUTPUTS = "outputs"
    PREDICTIONS = "predictions"
    CHECKPOINTS = "checkpoints"
    TENSORBOARD = "tensorboard"
    NOTEBOOK = "notebook"
    LOGS = "logs"
    METRICS = "metrics"
    SUMMARY = "summary"
    PLAN = "plan"
    TIMELINE = "timeline"
    JOB = "job"
    SOURCE = "source"
    EVERYTHING = "everything"
    ALL = "all"


FOLDERS = (
    Part.MODEL,
    Part.OUTPUTS,
    Part.PREDICTIONS,
    Part.CHECKPOINTS,
    Part.TENSORBOARD,
    Part.NOTEBOOK,
    Part.LOGS,
    Part.SOURCE,
)
"""Parts that `get` downloads into a folder of their own."""


def parse(text: str) -> str:
    """Return the part that `text` names, or the path of an output, e.g. outputs/weights.pt. Raises BadParameter."""
    if text == Part.ALL:
        return Part.EVERYTHING
    if text in tuple(Part) or (text.startswith(f"{Part.OUTPUTS}/") and text != f"{Part.OUTPUTS}/"):
        return text
    raise typer.BadParameter(
        f"{text!r} is not a part of a run; the parts are {', '.join(Part)} and outputs/PATH"
    )


def list_parts(run: Run) -> list[Part]:
    """Return the parts that the run's bucket folder contains."""
    from trainyard.client.runs.files import DOCUMENTS

    keys = run.keys
    begins = {key.partition("/")[0] for key in keys if "/" in key}
    files = {word for word, name in DOCUMENTS.items() if name in keys}
    logs = {"logs"} if any("/logs/" in key or key.startswith("logs/") for key in keys) else set()
    return [part for part in Part if part in begins | files | logs]
