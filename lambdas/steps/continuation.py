"""The continuation of a study that has ended: its next execution opens the run again, with new limits. The rows hold
the whole state of a study, so numbers continue and earlier values count."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from lambdas.aws.dynamodb.ledger import AlreadyWrittenError, Ledger
from lambdas.aws.dynamodb.rows import event_row, open_row
from lambdas.aws.dynamodb.studies import Studies, continued_run, next_row
from lambdas.core.run import RunUpdate
from lambdas.core.run.slots import YardLimits
from lambdas.core.study import limits
from lambdas.steps.inputs import AdmitInput
from lambdas.steps.observability import clock, note
from trainyard.core.jobfile import study_requests
from trainyard.core.model.errors import JobRefused, Refused
from trainyard.core.model.job import Job
from trainyard.protocol import trial
from trainyard.protocol.ledger.study import STUDY
from trainyard.protocol.requests import More
from trainyard.values import serialization
from trainyard.values.lazy import dataclass
from trainyard.values.quantities import format_count


@dataclass(frozen=True, kw_only=True)
class Continued:
    """A study that runs again."""

    hours: float
    reason: str


def admit(given: AdmitInput, ledger: Ledger, of_yard: YardLimits) -> Continued | Refused:
    """Open the run of a study again."""
    study, part = trial.part_of(given.run)
    row, found = ledger.run(study), Studies(ledger.table).read(study)
    asked = _read(given.input)
    job = serialization.from_json(Job, row.job) if row and row.job else None
    if row is None or found is None or job is None or job.study is None or asked is None:
        return _refuse(f"{given.run} continues no study of this yard")
    more, by = asked
    hours = more.hours or job.study.limits.hours
    continued = Continued(
        hours=hours,
        reason=f"{by} continued the study: {format_count(more.trials, 'more trial')} for ${more.dollars:g} in "
        f"{hours:g} h",
    )
    if row.execution_arn == given.execution:
        return continued
    if row.ended is None or part != found.row.part + 1:
        return _refuse(f"{study} is running, or another request has continued it")
    last = max((each.number for each in found.trials), default=0)
    faults = [
        *study_requests.find_continuation_faults(
            found.row, last, trials=more.trials, dollars=more.dollars, hours=more.hours
        ),
        *limits.faults_of_continuation(more, of_yard),
    ]
    if faults:
        return _refuse("; ".join(faults))
    counters = replace(
        found.row,
        version=found.row.version + 1,
        trials=found.row.reported + more.trials,
        dollars=round(found.row.spent + found.row.lent + more.dollars, 5),
        until=given.started + timedelta(hours=hours),
        part=part,
        since=last,
    )
    assert row.search, "the row of a study has its counters"
    search = replace(row.search, trials=counters.trials, most_dollars=counters.dollars)
    values: RunUpdate = {
        "state": "Admit",
        "attempt": part,
        "execution_arn": given.execution,
        "search": search,
    }
    try:
        ledger.write(
            next_row(study, counters),
            continued_run(study, values),
            open_row(study, STUDY, given.execution),
            event_row(study, note("continued", continued.reason, at=clock())),
        )
    except AlreadyWrittenError:
        return _refuse(f"{study} has changed while it was continued; ask again")
    return continued


def _read(execution_input: object) -> tuple[More, str] | None:
    """Return the request and its user, from the input that signal writes."""
    given: Mapping[str, Any] = execution_input if isinstance(execution_input, Mapping) else {}
    more = given.get("more")
    if more is None or serialization.faults(More, more):
        return None
    return serialization.from_json(More, dict(more)), str(given.get("by"))


def _refuse(reason: str) -> Refused:
    return Refused(JobRefused.__name__, reason)
