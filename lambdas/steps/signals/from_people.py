"""Requests of users. `stop`: a run saves if it trains, and ends as `stopped`. `end-warm-hosts`: no run claims the warm
hosts of the run any more. `model`: an execution changes a model. `schedule`: submit changes a schedule."""

import json
from datetime import datetime
from typing import assert_never

from lambdas.aws import messages, states
from lambdas.aws.dynamodb.ledger import AlreadyWrittenError
from lambdas.aws.dynamodb.rows import attempt_row, event_row, run_row
from lambdas.core.run import stopping
from lambdas.core.run.records import Records
from lambdas.core.run.recovery import Trouble
from lambdas.core.run.stopping import EndAttempt, GiveTime, LetItEnd, OrderGang, StopExecution
from lambdas.steps.observability import logger
from lambdas.steps.signals.context import SignalContext, SignalSettings
from trainyard.core.model.errors import Stopped
from trainyard.protocol import sources
from trainyard.protocol.ledger.study import STUDY
from trainyard.protocol.requests import ModelRequest, ScheduleRequest, model_of
from trainyard.protocol.timeline import Source
from trainyard.values import serialization


def stop(context: SignalContext, by: str, now: datetime) -> str:
    """Stop a run for a user; return the result for the log."""
    records = context.open_run()
    if records is None:
        return "the run is over, or unknown"
    if records.run.kind not in ("train", STUDY):
        return f"a {records.run.kind} run saves nothing; stop its execution"
    entry = context.entry("stop asked", at=now, source=Source.WORKFLOW, reason=f"{by} asked the run to stop")
    try:
        stopped = run_row(context.run, {"stopping": now, "stopped_by": by}, unless="stopping")
        context.ledger.write(stopped, event_row(context.run, entry))
    except AlreadyWrittenError:
        logger.info("%s: a user stopped it before", context.run)
    if records.run.kind == STUDY:
        messages.invoke(f"{context.yard.yard}-study-turn", json.dumps({"run": context.run}).encode())
        return "the study stops its trials"
    return continue_stop(context, now)


def change_model(yard: SignalSettings, request: ModelRequest, source: str) -> str:
    """Start the execution that changes the model for the sender that IAM has verified; return the result for the
    log."""
    # Few requests change a model, and each cold start would pay for this import.
    from lambdas.core.models import commands

    if model_of(request.request) is None:
        return f"invalid name of a request: {request.request!r:.90}"
    given = {
        "request": serialization.to_json(request),
        "by": sources.sending_user(source),
        "operator": sources.is_operator(source),
    }
    again = commands.repeat(request)
    started = states.start(yard.version_state_machine_arn, request.request, given, by_hand=again)
    return f"{request.request} begins" if started else "this request was handled before"


def change_schedule(yard: SignalSettings, request: ScheduleRequest, source: str) -> str:
    """Pass the request to the function that keeps schedules, with its sender; return the result for the log."""
    given = {
        "request": serialization.to_json(request),
        "by": sources.sending_user(source),
        "operator": sources.is_operator(source),
    }
    messages.invoke(f"{yard.yard}-submit", json.dumps(given).encode())
    return f"{request.act} of the schedule {request.schedule:.40} begins"


def continue_stop(context: SignalContext, now: datetime) -> str:
    """Take the next step of a stopped run; return the result for the log. Patrol repeats this each minute until the run
    is over."""
    records = context.open_run()
    if records is None or records.run.stopping is None:
        return "the run is over, or no user stopped it"
    context = context.for_attempt(records.run.attempt)
    row = records.attempts.get(context.attempt)
    match stopping.decide(records, row.ordered_to_stop if row else None, now):
        case LetItEnd(reason=reason):
            return f"the run ends by itself: {reason}"
        case OrderGang():
            if _order_gang(context, now):
                return "the gang is asked to checkpoint"
            return _end(context, records, now)
        case GiveTime():
            return "the gang was asked and may still save"
        case EndAttempt():
            return _end(context, records, now)
        case StopExecution():
            trouble = Trouble(error=Stopped.__name__, reason=stopping.reason(records, now), final=True)
            stopped = states.stop(records.run.execution_arn, trouble)
            return "its execution is stopped" if stopped else "its execution is over"
        case deed:
            assert_never(deed)


def _order_gang(context: SignalContext, now: datetime) -> bool:
    """Record the request, then ask the gang to leave; return whether a host could be asked. The record comes first, so
    that the gang is asked once."""
    try:
        context.ledger.write(
            attempt_row(context.run, context.attempt, {"ordered_to_stop": now}, unless="ordered_to_stop")
        )
    except AlreadyWrittenError:
        return True
    return context.order_to_stop(context.ledger.require(context.run), besides=())


def _end(context: SignalContext, records: Records, now: datetime) -> str:
    """End the attempt without a step, because no program runs yet or no host answers."""
    end(context, records, None, now)
    return "the attempt is over"


def end(context: SignalContext, records: Records, step: int | None, now: datetime) -> None:
    """End the attempt of a stopped run; `step` is the last step that its hosts reported."""
    reason = stopping.reason(records, now, step)
    trouble = Trouble(error=Stopped.__name__, reason=reason, step=step, final=True)
    over = context.entry("stopped", at=now, source=Source.WORKFLOW, reason=reason)
    row = records.attempts[context.attempt]
    context.end(over, now, trouble=trouble, step=row.last_step_with(step))
