"""Events of AWS: spot warnings, changes of instances, finished images, ended commands."""

from datetime import datetime
from typing import assert_never

from lambdas.aws.dynamodb.rows import ResourceKind, event_row, host_row
from lambdas.aws.ec2 import instances
from lambdas.core.run.records import Records
from lambdas.core.run.recovery import Trouble
from lambdas.steps import attempts, stored_signals, waits
from lambdas.steps.signals import endings, joining, warm_hosts
from lambdas.steps.signals.context import SignalContext
from lambdas.steps.signals.events import AwsEvent, CommandStatus, ImageState, InstanceState, SpotWarning
from lambdas.steps.waits import Entered
from trainyard.core.model.errors import TrainyardError
from trainyard.core.model.images.image import Image
from trainyard.protocol.timeline import Source
from trainyard.values import serialization

IMAGING = "recorded: EC2 continues to make the image of this host, and the end of the image decides"
LAUNCHING = "recorded: the gang is being launched, and AwaitHosts counts it without this host"


def name_resource(message: AwsEvent) -> tuple[ResourceKind, str]:
    """Return the kind and name of the event's resource, as in the look-up rows."""
    match message:
        case ImageState():
            return "image", message.image
        case CommandStatus():
            return "command", message.command
        case SpotWarning() | InstanceState():
            return "instance", message.instance
        case _:
            assert_never(message)


def handle(context: SignalContext, message: AwsEvent, at: datetime, now: datetime) -> str:
    """Handle the event of that time; return the result for the log."""
    match message:
        case SpotWarning():
            return _handle_warning(context, message, at, now)
        case InstanceState():
            return _handle_state_change(context, message, at, now)
        case ImageState():
            return _handle_image(context, message, now)
        case CommandStatus():
            return _handle_command(context, message, now)
        case _:
            assert_never(message)


def _find_member(context: SignalContext, instance: str) -> SignalContext | None:
    """Return the context of the host's current attempt; its look-up row only contains the first one. During a launch, a
    remaining host may not be recorded in the attempt yet, but belongs to it."""
    records = context.open_run()
    if records is None:
        return None
    attempt = records.run.attempt
    host, row = records.hosts.get(instance), records.attempts.get(attempt)
    if host is None or host.ended is not None or host.releasing is not None:
        return None
    if records.run.kind == "train" and row is not None and instance not in row.hosts:
        return None
    return context.for_attempt(attempt)


def _handle_warning(context: SignalContext, warning: SpotWarning, at: datetime, now: datetime) -> str:
    """Handle a spot warning. The host also reads it from its metadata service; this second path reaches the whole
    gang."""
    instance = warning.instance
    reason = f"EC2 takes {instance} back in two minutes ({warning.action})"
    member = _find_member(context, instance)
    if member is None:
        lost = joining.lose(context, instance, reason, now) or warm_hosts.leave(
            context, instance, reason, now
        )
        return lost or f"{instance} is in no live attempt"
    entry = member.entry("spot warning", at=at, source=Source.AWS, instance=instance, reason=reason)
    context.ledger.write(
        host_row(context.run, instance, {"warned": serialization.timestamp(at)}),
        event_row(context.run, entry),
    )
    records = context.ledger.require(context.run)
    if member.attempt not in records.attempts:
        return LAUNCHING
    if records.run.kind != "train":
        return _end_lone_host(member, records, "Interrupted", reason, now)
    if records.waiting(member.attempt, ("train",)):
        member.order_to_stop(records, besides=())
        return "the gang is asked to checkpoint"
    trouble = Trouble(error="Interrupted", reason=f"{reason}, before the gang was started", lost=(instance,))
    over = member.entry(
        "interrupted", at=now, source=Source.WORKFLOW, instance=instance, reason=trouble.reason
    )
    attempts.end(context.ledger, context.run, member.attempt, over, now, trouble=trouble, step=None)
    return "the gang lost a host before it was started"


def _handle_state_change(context: SignalContext, change: InstanceState, at: datetime, now: datetime) -> str:
    """Handle the loss of a host that this yard did not end."""
    instance, state = change.instance, change.state
    if state not in ("shutting-down", "terminated", "stopping", "stopped"):
        return f"{instance} is {state}"
    member = _find_member(context, instance)
    if member is None:
        reason = f"EC2 reports {instance} is {state}"
        ended = None if state in ("stopping", "stopped") else at  # a stopped host must still be terminated
        lost = joining.lose(context, instance, reason, now, ended=ended)
        lost = lost or warm_hosts.leave(context, instance, reason, at)
        return lost or f"{instance} is {state}, and is in no live attempt"
    records = context.ledger.require(context.run)
    error, reason = _explain_loss(records, instance, state)
    entry = member.entry("host lost", at=at, source=Source.AWS, instance=instance, reason=reason)
    context.ledger.write(
        host_row(context.run, instance, {"lost": reason, "ended": at}),
        event_row(context.run, entry),
    )
    if member.attempt not in records.attempts:
        return LAUNCHING
    if records.run.kind != "train":
        return _end_lone_host(member, records, error, reason, now)
    bucket = context.yard.bucket_name
    if report := stored_signals.final_report_of(bucket, context.run, member.attempt, instance):
        return endings.end_failed(member, *report, now)
    step = records.attempts[member.attempt].last_step
    trouble = Trouble(error=error, reason=reason, lost=(instance,), step=step)
    member.order_to_stop(records, besides=(instance,))
    attempts.end(context.ledger, context.run, member.attempt, entry, now, trouble=trouble, step=step)
    return f"{error}: {reason}"


def _explain_loss(records: Records, instance: str, state: str) -> tuple[str, str]:
    """Return the error and the reason of a loss. A host that never sent a signal may be a host that EC2 could not
    start."""
    host = records.hosts[instance]
    if host.warned:
        return "Interrupted", f"EC2 reports {instance} is {state}"
    for found in () if host.ready else instances.find_by_id([instance]):
        if why := attempts.explain_failed_start(host, found):
            return "Misconfigured", why
    return "HostLost", f"EC2 reports {instance} is {state}"


def _end_lone_host(member: SignalContext, records: Records, error: str, reason: str, now: datetime) -> str:
    """End the attempt of a lost builder or of another host without a program."""
    if records.waiting(member.attempt, ("capture",)):
        return IMAGING
    trouble = Trouble(error=error, reason=reason, lost=tuple(records.attempts[member.attempt].hosts))
    over = member.entry("host lost", at=now, source=Source.WORKFLOW, reason=reason)
    attempts.end(member.ledger, member.run, member.attempt, over, now, trouble=trouble, step=None)
    return f"{error}: {reason}"


def _handle_image(context: SignalContext, change: ImageState, now: datetime) -> str:
    records, wait = context.live(), context.wait
    if records is None or wait is None:
        return "no run waits for this image"
    image = Image(change.image, "", change.state, change.error or "", "", {})
    entered = Entered(context.ledger, records, context.attempt, wait, now)
    _fail(entered, waits.answer_image(entered, image))
    return f"{image.id} is {image.state}"


def _fail(entered: Entered, wrong: TrainyardError | None) -> None:
    """Fail the task that waits for a failed command or image."""
    token = entered.ledger.token(entered.run, entered.attempt, entered.wait)
    if wrong and token:
        trouble = Trouble(error=type(wrong).__name__, reason=wrong.reason)
        attempts.fail(entered.ledger, entered.run, token, trouble, entered.now)


def _handle_command(context: SignalContext, ended: CommandStatus, now: datetime) -> str:
    status, document = ended.status, ended.document
    records, wait = context.live(), context.wait
    if records is None or wait is None:
        return f"{document}: {status}, and no run waits for it"
    entered = Entered(context.ledger, records, context.attempt, wait, now)
    _fail(entered, waits.answer_command(entered, status))
    return f"{document}: {status}"
