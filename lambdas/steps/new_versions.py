"""Start the version of a model that a job requests for its successful end (`after.model`)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lambdas.aws import states
from lambdas.steps.conclusion import RunEnd
from trainyard.core.model import condition, submitter
from trainyard.core.model.job import NewVersion
from trainyard.core.model.tokens import request_suffix
from trainyard.protocol.ledger.run import Outcome
from trainyard.protocol.requests import Act, ModelRequest, name_request
from trainyard.values import serialization


def wanted_by(end: RunEnd) -> NewVersion | None:
    """Return the version that the run creates. The study creates one for all of its trials."""
    if end.job is None or end.trial or end.conclusion.outcome is not Outcome.SUCCEEDED:
        return None
    return end.job.after.model


def decide(end: RunEnd, metrics: Mapping[str, Any] | None) -> tuple[RunEnd, NewVersion | None]:
    """Return the end, and the version that it creates. If the metrics do not meet the condition of the version, there
    is none, and the end has a warning."""
    wanted = wanted_by(end)
    unmet = condition.find_unmet(wanted.when, metrics or {}) if wanted and wanted.when else None
    if wanted is None or unmet is None:
        return end, wanted
    warning = f"{wanted.name} gets no version of this run: {unmet}"
    return replace(end, warnings=(*end.warnings, warning)), None


def start(end: RunEnd, wanted: NewVersion | None, machine: str) -> None:
    """Start the execution that makes the version, unless the end has failed since. A repeated call starts nothing."""
    if wanted is None or wanted_by(end) is None:
        return
    row = end.row
    assert row, "a successful run has a row"
    name = name_request(wanted.name, row.created, request_suffix(end.run))
    request = ModelRequest(
        request=name, act=Act.VERSION, model=wanted.name, alias=wanted.alias or "", origin=end.run
    )
    by = row.submitter or submitter.UNKNOWN
    states.start(machine, name, {"request": serialization.to_json(request), "by": by})
