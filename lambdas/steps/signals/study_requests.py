"""Requests of users to a study: continue it, or add a point. Only its owner and operators may send them.

A request that is refused changes nothing. The client checks it before it sends it, so that the log has the reason only
for a request that another one has overtaken."""

import json
import re
from datetime import datetime

from lambdas.aws import messages, states
from lambdas.aws.dynamodb.ledger import AlreadyWrittenError, Ledger
from lambdas.aws.dynamodb.rows import event_row
from lambdas.aws.dynamodb.studies import Studies, StudyRows, point_row
from lambdas.steps.observability import note
from lambdas.steps.signals.context import SignalSettings
from trainyard.command_line import command_line
from trainyard.core.jobfile import study_requests
from trainyard.core.model import submitter
from trainyard.core.model.job import Job
from trainyard.core.model.study import Study
from trainyard.protocol import sources, trial
from trainyard.protocol.ledger.run import RunRow
from trainyard.protocol.ledger.study import PointRow
from trainyard.protocol.requests import AddPoint, More
from trainyard.values import serialization

POINT_ID = re.compile(r"[0-9a-f]{16}")


def handle(yard: SignalSettings, ledger: Ledger, request: More | AddPoint, source: str, now: datetime) -> str:
    """Handle the request of the sender that IAM has verified; return the result for the log."""
    by = sources.sending_user(source) or submitter.UNKNOWN
    row, found = ledger.run(request.run), Studies(yard.table_name).read(request.run)
    study = serialization.from_json(Job, row.job).study if row and row.job else None
    if row is None or found is None or study is None:
        return f"{request.run} is not a study of this yard"
    if not sources.is_operator(source) and by != row.submitter:
        return f"{request.run} belongs to {row.submitter}: {by} may not change it"
    if isinstance(request, More):
        return _continue(yard, request, row, found, by)
    return _add(yard, ledger, request, row, found, study, by, now)


def _continue(yard: SignalSettings, request: More, row: RunRow, found: StudyRows, by: str) -> str:
    """Start the next execution of the study. Its Admit writes the rows, so a repeated request changes nothing."""
    if row.ended is None or request.part != found.row.part + 1:
        return f"{request.run} is running, or another request has continued it"
    last = max((each.number for each in found.trials), default=0)
    faults = study_requests.find_continuation_faults(
        found.row, last, trials=request.trials, dollars=request.dollars, hours=request.hours
    )
    if faults:
        return "; ".join(faults)
    given = {"more": serialization.to_json(request), "by": by}
    name = trial.part_name(request.run, request.part)
    hours = ("--hours", f"{request.hours:g}") if request.hours else ()
    limits = ("--trials", str(request.trials), "--dollars", f"{request.dollars:g}", *hours)
    again = command_line("study", "more", request.run, *limits)
    started = states.start(yard.study_state_machine_arn, name, given, by_hand=again)
    return f"{name} {'started' if started else 'was started before'}"


def _add(
    yard: SignalSettings,
    ledger: Ledger,
    request: AddPoint,
    row: RunRow,
    found: StudyRows,
    study: Study,
    by: str,
    now: datetime,
) -> str:
    if not POINT_ID.fullmatch(request.point):
        return f"{request.point!r:.40} is not the id of a point"
    if row.ended or row.stopping:
        return f"{request.run} is over, or a user has stopped it"
    faults = study_requests.find_point_faults(study, request.values)
    refused = "; ".join(faults) or study_requests.refuse_point(found.row, len(found.waiting))
    if refused:
        return refused
    point = PointRow(id=request.point, values=request.values, by=by, added=now)
    added = note("point added", f"{by} added {study_requests.describe(request.values)}", at=now)
    try:
        ledger.write(point_row(request.run, point), event_row(request.run, added))
    except AlreadyWrittenError:
        return f"the point {request.point} was added before"
    messages.invoke(f"{yard.yard}-study-turn", json.dumps({"run": request.run}).encode())
    return f"the point {request.point} waits for a trial"
