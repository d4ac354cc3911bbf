"""Outputs that a later attempt, or a run that resumes this one, begins with."""

from collections.abc import Mapping
from typing import Any


def are_restored(job: Mapping[str, Any]) -> bool:
    """Return True if an attempt of this job that finds no checkpoint begins with outputs: those of the attempt before
    it, or those of the run that it resumes."""
    outputs = job.get("outputs") or {}
    return bool(outputs.get("keep", True)) and outputs.get("restore") is not False
