"""What AWS says: spot warnings, instances that go, images that are made, commands that ended."""

from datetime import datetime
from typing import assert_never

from lambdas.aws.dynamodb.rows import ResourceKind, event_row, host_row
from lambdas.aws.ec2 import instances
from lambdas.core.run.records import Records
from lambdas.core.run.recovery import Trouble
from lambdas.steps import attempts, left_signals, waits
from lambdas.steps.signals import endings, newcomers, pooled
from lambdas.steps.signals.context import SignalContext
from lambdas.steps.signals.events import AwsNews, CommandStatus, ImageState, InstanceState, SpotWarning
from lambdas.steps.waits import Entered
from trainyard.core.model.errors import TrainyardError
from trainyard.core.model.images.image import Image
from trainyard.protocol.timeline import Source
from trainyard.values import serialization

IMAGING = "noted: EC2 goes on making its image, whose own end counts"
LAUNCHING = "noted: the gang is being launched, and AwaitHosts counts it without this host"


def about(news: AwsNews) -> tuple[ResourceKind, str]:
    """What the event is about, as the look-up rows name it."""
    match news:
        case ImageState():
            return "image", news.image
        case CommandStatus():
            return "command", news.command
        case SpotWarning() | InstanceState():
            return "instance", news.instance
        case _:
            assert_never(news)


def handle(context: SignalContext, news: AwsNews, at: datetime, now: datetime) -> str:
    """Do what the event of that time asks for; what came of it, for the log."""
    match news:
        case SpotWarning():
            return _warned(context, news, at, now)
        case InstanceState():
            return _changed(context, news, at, now)
        case ImageState():
            return _imaged(context, news, now)
        case CommandStatus():
            return _commanded(context, news, now)
        case _:
            assert_never(news)


def _member(context: SignalContext, instance: str) -> SignalContext | None:
    """The context of the attempt that this host is in now (its look-up row knows only its first one): the current
    one, be it that its gang is still being launched and a survivor's place in it is not written down yet."""
    records = context.open_run()
    if records is None:
        return None
    attempt = records.run.attempt
    host, row = records.hosts.get(instance), records.attempts.get(attempt)
    if host is None or host.ended is not None or host.releasing is not None:
        return None
    if records.run.kind == "train" and row is not None and instance not in row.hosts:
        return None
    return context.about(attempt)


def _warned(context: SignalContext, warning: SpotWarning, at: datetime, now: datetime) -> str:
    """The host learns it from its metadata service too; this is the second path, for the whole gang."""
    instance = warning.instance
    reason = f"EC2 takes {instance} back in two minutes ({warning.action})"
    member = _member(context, instance)
    if member is None:
        lost = newcomers.lose(context, instance, reason, now) or pooled.leave(context, instance, reason, now)
        return lost or f"{instance} is in no live attempt"
    entry = member.entry("spot warning", at=at, source=Source.AWS, instance=instance, reason=reason)
    context.ledger.write(
        host_row(context.run, instance, {"warned": serialization.timestamp(at)}),
        event_row(context.run, entry),
    )
    records = context.ledger.known(context.run)
    if member.attempt not in records.attempts:
        return LAUNCHING
    if records.run.kind != "train":
        return _lone_host_going(member, records, "Interrupted", reason, now)
    if records.waiting(member.attempt, ("train",)):
        member.ask_to_stop(records, besides=())
        return "the gang is asked to checkpoint"
    trouble = Trouble(error="Interrupted", reason=f"{reason}, before the gang was started", lost=(instance,))
    over = member.entry(
        "interrupted", at=now, source=Source.WORKFLOW, instance=instance, reason=trouble.reason
    )
    attempts.end(context.ledger, context.run, member.attempt, over, now, trouble=trouble, step=None)
    return "the gang is one short before it was started"


def _changed(context: SignalContext, change: InstanceState, at: datetime, now: datetime) -> str:
    """A host of a live attempt goes or is gone, and nobody of ours asked for it."""
    instance, state = change.instance, change.state
    if state not in ("shutting-down", "terminated", "stopping", "stopped"):
        return f"{instance} is {state}"
    member = _member(context, instance)
    if member is None:
        reason = f"EC2 says {instance} is {state}"
        ended = None if state in ("stopping", "stopped") else at  # one that is stopped is still to be ended
        lost = newcomers.lose(context, instance, reason, now, ended=ended)
        lost = lost or pooled.leave(context, instance, reason, at)
        return lost or f"{instance} is {state}, and is in no live attempt"
    records = context.ledger.known(context.run)
    error, reason = _loss(records, instance, state)
    entry = member.entry("host lost", at=at, source=Source.AWS, instance=instance, reason=reason)
    context.ledger.write(
        host_row(context.run, instance, {"lost": reason, "ended": at}),
        event_row(context.run, entry),
    )
    if member.attempt not in records.attempts:
        return LAUNCHING
    if records.run.kind != "train":
        return _lone_host_going(member, records, error, reason, now)
    bucket = context.yard.bucket_name
    if report := left_signals.final_report_of(bucket, context.run, member.attempt, instance):
        return endings.end_failed(member, *report, now)
    step = records.attempts[member.attempt].reached
    trouble = Trouble(error=error, reason=reason, lost=(instance,), step=step)
    member.ask_to_stop(records, besides=(instance,))
    attempts.end(context.ledger, context.run, member.attempt, entry, now, trouble=trouble, step=step)
    return f"{error}: {reason}"


def _loss(records: Records, instance: str, state: str) -> tuple[str, str]:
    """The word for it, and why. A host that never said anything may be one that EC2 could not start."""
    host = records.hosts[instance]
    if host.warned:
        return "Interrupted", f"EC2 says {instance} is {state}"
    for found in () if host.ready else instances.of_ids([instance]):
        if why := attempts.could_not_start(host, found):
            return "Misconfigured", why
    return "HostLost", f"EC2 says {instance} is {state}"


def _lone_host_going(member: SignalContext, records: Records, error: str, reason: str, now: datetime) -> str:
    """A builder, or another host that no program runs on: whatever was to be done on it is over."""
    if records.waiting(member.attempt, ("capture",)):
        return IMAGING
    trouble = Trouble(error=error, reason=reason, lost=tuple(records.attempts[member.attempt].hosts))
    over = member.entry("host lost", at=now, source=Source.WORKFLOW, reason=reason)
    attempts.end(member.ledger, member.run, member.attempt, over, now, trouble=trouble, step=None)
    return f"{error}: {reason}"


def _imaged(context: SignalContext, change: ImageState, now: datetime) -> str:
    records, wait = context.live(), context.wait
    if records is None or wait is None:
        return "an image that nobody waits for"
    image = Image(change.image, "", change.state, change.error or "", "", {})
    entered = Entered(context.ledger, records, context.attempt, wait, now)
    _fail(entered, waits.answer_image(entered, image))
    return f"{image.id} is {image.state}"


def _fail(entered: Entered, wrong: TrainyardError | None) -> None:
    """The wait of a command or an image that ended badly."""
    token = entered.ledger.token(entered.run, entered.attempt, entered.wait)
    if wrong and token:
        trouble = Trouble(error=type(wrong).__name__, reason=wrong.reason)
        attempts.fail(entered.ledger, entered.run, token, trouble, entered.now)


def _commanded(context: SignalContext, ended: CommandStatus, now: datetime) -> str:
    status, document = ended.status, ended.document
    records, wait = context.live(), context.wait
    if records is None or wait is None:
        return f"{document}: {status}, and nobody waits for it"
    entered = Entered(context.ledger, records, context.attempt, wait, now)
    _fail(entered, waits.answer_command(entered, status))
    return f"{document}: {status}"
