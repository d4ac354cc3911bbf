"""What AWS says: spot warnings, instances that go, images that are made, commands that ended."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from lambdas.aws import s3
from lambdas.aws.ledger import event_row, host_row
from lambdas.core.model import wire
from lambdas.core.model.errors import TrainyardError
from lambdas.core.model.image import Image
from lambdas.core.model.timeline import Source
from lambdas.core.run.records import Records
from lambdas.core.run.recovery import Trouble
from lambdas.steps import attempts, waits
from lambdas.steps.signals import from_hosts
from lambdas.steps.signals.context import Hearing

IMAGING = "noted: EC2 goes on making its image, whose own end counts"
LAUNCHING = "noted: the gang is being launched, and AwaitHosts counts it without this host"


def about(event: Mapping[str, Any]) -> tuple[str, str]:
    """What the event is about, as the look-up rows name it."""
    detail = event["detail"]
    match event["detail-type"]:
        case "EC2 AMI State Change":
            return "image", str(detail["ImageId"])
        case "EC2 Command Status-change Notification":
            return "command", str(detail["command-id"])
        case _:
            return "instance", str(detail["instance-id"])


def named_in_parameters(event: Mapping[str, Any]) -> dict[str, Any] | None:
    """A start command's run and attempt: its end may be told before its look-up row is written."""
    detail = event["detail"]
    parameters = detail.get("parameters") or {}
    run, attempt = parameters.get("Run"), parameters.get("Attempt")
    if not (run and attempt and str(detail.get("document-name", "")).endswith("-start")):
        return None
    return {"run": run[0], "attempt": int(attempt[0]), "wait": "train"}


def listen(hearing: Hearing, event: Mapping[str, Any], now: datetime) -> str:
    """Do what the event asks for; what came of it, for the log."""
    at = wire.instant(str(event["time"]))
    match event["detail-type"]:
        case "EC2 Spot Instance Interruption Warning":
            return _warned(hearing, at, now)
        case "EC2 Instance State-change Notification":
            return _changed(hearing, at, now)
        case "EC2 AMI State Change":
            return _imaged(hearing, now)
        case "EC2 Command Status-change Notification":
            return _commanded(hearing, at, now)
        case unknown:
            return f"an event nobody asked for: {unknown}"


def _member(hearing: Hearing, instance: str) -> Hearing | None:
    """The hearing with the attempt that this host is in now (its look-up row knows only its first one): the current
    one, be it that its gang is still being launched and a survivor's place in it is not written down yet."""
    records = hearing.going_on()
    if records is None:
        return None
    attempt = records.run.attempt
    host, row = records.hosts.get(instance), records.attempts.get(attempt)
    if host is None or host.ended is not None or host.releasing is not None:
        return None
    if records.run.kind == "train" and row is not None and instance not in row.hosts:
        return None
    return Hearing(hearing.yard, hearing.ledger, hearing.run, attempt, hearing.detail)


def _warned(hearing: Hearing, at: datetime, now: datetime) -> str:
    """The host hears it from its metadata service too; this is the second path, for the whole gang."""
    instance = str(hearing.detail["instance-id"])
    member = _member(hearing, instance)
    if member is None:
        return f"{instance} is in no live attempt"
    action = hearing.detail.get("instance-action", "terminate")
    reason = f"EC2 takes {instance} back in two minutes ({action})"
    entry = member.entry("spot warning", at=at, source=Source.AWS, instance=instance, reason=reason)
    hearing.ledger.write(
        host_row(hearing.run, instance, {"warned": wire.stamp(at)}, only="launched"),
        event_row(hearing.run, entry),
    )
    records = hearing.ledger.known(hearing.run)
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
    attempts.end(hearing.ledger, hearing.run, member.attempt, over, now, trouble=trouble, step=None)
    return "the gang is one short before it was started"


def _changed(hearing: Hearing, at: datetime, now: datetime) -> str:
    """A host of a live attempt goes or is gone, and nobody of ours asked for it."""
    instance, state = str(hearing.detail["instance-id"]), str(hearing.detail["state"])
    if state not in ("shutting-down", "terminated", "stopping", "stopped"):
        return f"{instance} is {state}"
    member = _member(hearing, instance)
    if member is None:
        return f"{instance} is {state}, and is in no live attempt"
    records = hearing.ledger.known(hearing.run)
    reason = f"EC2 says {instance} is {state}"
    entry = member.entry("host lost", at=at, source=Source.AWS, instance=instance, reason=reason)
    hearing.ledger.write(
        host_row(hearing.run, instance, {"lost": reason, "ended": at}, only="launched"),
        event_row(hearing.run, entry),
    )
    if member.attempt not in records.attempts:
        return LAUNCHING
    if records.run.kind != "train":
        warned = records.hosts[instance].warned
        return _lone_host_going(member, records, "Interrupted" if warned else "HostLost", reason, now)
    said = _last_words(member, instance)
    if said:
        return from_hosts.failed(member, said, now)
    host, step = records.hosts[instance], (records.run.progress or {}).get("step")
    error = "Interrupted" if host.warned else "HostLost"
    trouble = Trouble(error=error, reason=reason, lost=(instance,), step=step)
    member.ask_to_stop(records, besides=(instance,))
    attempts.end(hearing.ledger, hearing.run, member.attempt, entry, now, trouble=trouble, step=step)
    return f"{error}: {reason}"


def _last_words(hearing: Hearing, instance: str) -> dict[str, Any] | None:
    key = f"runs/{hearing.run}/attempts/{hearing.attempt}/last-words/{instance}.json"
    return s3.get_json(hearing.yard.bucket_name, key)


def _lone_host_going(member: Hearing, records: Records, error: str, reason: str, now: datetime) -> str:
    """A builder, or another host that no program runs on: whatever was to be done on it is over."""
    if records.waiting(member.attempt, ("capture",)):
        return IMAGING
    trouble = Trouble(error=error, reason=reason, lost=tuple(records.attempts[member.attempt].hosts))
    over = member.entry("host lost", at=now, source=Source.WORKFLOW, reason=reason)
    attempts.end(member.ledger, member.run, member.attempt, over, now, trouble=trouble, step=None)
    return f"{error}: {reason}"


def _imaged(hearing: Hearing, now: datetime) -> str:
    records, wait = hearing.live(), hearing.wait
    if records is None or wait is None:
        return "an image that nobody waits for"
    detail = hearing.detail
    image = Image(
        str(detail["ImageId"]), "", str(detail["State"]), str(detail.get("ErrorMessage", "")), "", {}
    )
    _fail(hearing, wait, waits.answer_image(hearing.ledger, records, hearing.attempt, wait, image, now), now)
    return f"{image.id} is {image.state}"


def _fail(hearing: Hearing, wait: str, wrong: TrainyardError | None, now: datetime) -> None:
    """The wait of a command or an image that ended badly."""
    token = hearing.ledger.token(hearing.run, hearing.attempt, wait)
    if wrong and token:
        trouble = Trouble(error=type(wrong).__name__, reason=wrong.reason)
        attempts.fail(hearing.ledger, hearing.run, token, trouble, now)


def _commanded(hearing: Hearing, at: datetime, now: datetime) -> str:
    """The end of a start command says nothing about the training that it started, unless it failed."""
    status, document = str(hearing.detail["status"]), str(hearing.detail["document-name"])
    records, wait = hearing.live(), hearing.wait
    if records is None or wait is None:
        return f"{document}: {status}, and nobody waits for it"
    if wait != "train":
        _fail(
            hearing,
            wait,
            waits.answer_command(hearing.ledger, records, hearing.attempt, wait, status, now),
            now,
        )
    elif status in waits.ENDED_BADLY:
        reason = f"the document {document} ended with {status} on a host: the gang did not start whole"
        entry = hearing.entry("start failed", at=at, source=Source.AWS, reason=reason)
        trouble = Trouble(error="StartFailed", reason=reason)
        attempts.end(hearing.ledger, hearing.run, hearing.attempt, entry, now, trouble=trouble, step=None)
    return f"{document}: {status}"
