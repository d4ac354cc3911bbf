"""What hosts say: ready, started, progress, checkpointed, finished, stopped, failed, hold (docs/contracts.md)."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from lambdas.aws import instances, ssm, states
from lambdas.aws.ledger import AlreadyWrittenError, attempt_row, event_row, host_row, run_row
from lambdas.core.model import wire
from lambdas.core.model.errors import AccessDenied, Infrastructure
from lambdas.core.model.timeline import Source
from lambdas.core.patrol import hold
from lambdas.core.patrol.hold import Hold, NoHold
from lambdas.core.run import deadlines, silent_hosts
from lambdas.core.run import records as ledger_rows
from lambdas.core.run.records import Records
from lambdas.core.run.recovery import Trouble
from lambdas.core.run.summary import Ending
from lambdas.steps import attempts
from lambdas.steps.observability import logger
from lambdas.steps.signals.context import Hearing

PROGRESS = ("step", "steps", "epoch", "loss", "accuracy", "steps_per_second")


def listen(hearing: Hearing, event: Mapping[str, Any], now: datetime) -> str:
    """Do what the signal asks for; what came of it, for the log."""
    word = str(event["detail-type"])
    hear = WORDS.get(word)
    if hear is None:
        return f"a word nobody knows: {word}"
    return hear(hearing, now)


def _ready(hearing: Hearing, now: datetime) -> str:
    """Repeated until the host is started, so also the moment to see whether Systems Manager knows it by now.

    A survivor is ready before its next attempt has begun; one that was never started still names an older
    attempt. Both mean: it waits for the next start."""
    records = hearing.going_on()
    instance = str(hearing.detail["instance"])
    if records is None or instance not in records.hosts:
        return "not a host of a live run"
    attempt = max(hearing.attempt, records.run.attempt)
    if records.hosts[instance].ready < attempt:
        said = {"ready": attempt, "ready_at": now, "address": hearing.detail.get("address")}
        entry = hearing.entry(
            "ready",
            at=_at(hearing, now),
            source=Source.HOST,
            instance=instance,
            boot_seconds=hearing.detail.get("boot_seconds"),
        )
        hearing.ledger.write(
            host_row(hearing.run, instance, said, only="launched"), event_row(hearing.run, entry)
        )
        records = hearing.ledger.known(hearing.run)
    denied = hearing.detail.get("ssm_denied")
    attempts.gather(hearing.ledger, records, attempt, now, lost={}, ssm_denied=denied)
    if attempt > records.run.attempt:
        _look_for_the_silent(hearing.about(records.run.attempt), records, now)
    return f"{instance} is ready for attempt {attempt}"


def _look_for_the_silent(hearing: Hearing, records: Records, now: datetime) -> None:
    """A host that has left waits for the others: those that neither leave nor take orders are lost."""
    match silent_hosts.detect(records, hearing.attempt, now):
        case silent_hosts.AskToLeave(hosts=hosts, reason=reason):
            _ask_the_silent(hearing, records, hosts, reason, now)
        case silent_hosts.PresumeLost(hosts=hosts, commands=commands):
            well = ssm.succeeded(commands)
            lost = tuple(host for host in hosts if host not in well)
            if lost:
                _lose(hearing, records, lost, now)
        case silent_hosts.Wait(reason=reason):
            logger.info("%s: %s", hearing.run, reason)


def _ask_the_silent(
    hearing: Hearing, records: Records, hosts: tuple[str, ...], reason: str, now: datetime
) -> None:
    """Once: all that have left come by here."""
    asking = hearing.entry("asked to leave", at=now, source=Source.WORKFLOW, reason=reason)
    try:
        hearing.ledger.write(
            attempt_row(hearing.run, hearing.attempt, {"asked": now}, unless="asked"),
            event_row(hearing.run, asking),
        )
    except AlreadyWrittenError:
        return
    left = {host.instance for host in records.members(hearing.attempt)} - set(hosts)
    commands = hearing.ask_to_stop(records, besides=left)
    if commands:
        hearing.ledger.write(attempt_row(hearing.run, hearing.attempt, {"asked_by": commands}))


def _lose(hearing: Hearing, records: Records, lost: tuple[str, ...], now: datetime) -> None:
    reason, step = silent_hosts.reason_of(lost), (records.run.progress or {}).get("step")
    trouble = Trouble(error="HostLost", reason=reason, lost=lost, step=step)
    entry = hearing.entry("host lost", at=now, source=Source.WORKFLOW, reason=reason, lost=list(lost))
    hearing.ledger.write(*(host_row(hearing.run, host, {"lost": reason}, only="launched") for host in lost))
    attempts.end(hearing.ledger, hearing.run, hearing.attempt, entry, now, trouble=trouble, step=step)


def _started(hearing: Hearing, now: datetime) -> str:
    role = f"{hearing.detail.get('role')}-{hearing.detail.get('index')}"
    writes = [event_row(hearing.run, _said(hearing, "started", now, role=role))]
    if hearing.detail.get("role") == "chief":
        writes.append(attempt_row(hearing.run, hearing.attempt, {"started": _at(hearing, now)}))
    return _alive(hearing, writes)


def _progress(hearing: Hearing, now: datetime) -> str:
    """The first one of a restart also says where it went on, beside how far the attempts before it had come."""
    seen = {key: hearing.detail.get(key) for key in PROGRESS}
    seen |= {"at": _at(hearing, now), "attempt": hearing.attempt}
    writes = [run_row(hearing.run, {"progress": seen})]
    if hearing.attempt > 1:
        before = hearing.ledger.progress(hearing.run)
        if before.get("attempt") != hearing.attempt:
            proof = {"resumed": hearing.detail.get("resumed"), "reached_before": before.get("step") or 0}
            writes.append(attempt_row(hearing.run, hearing.attempt, proof))
    return _alive(hearing, writes)


def _checkpointed(hearing: Hearing, now: datetime) -> str:
    step = hearing.detail.get("step")
    entry = _said(hearing, "checkpointed", now, step=step, key=hearing.detail.get("key"))
    return _alive(hearing, [event_row(hearing.run, entry)])


def _alive(hearing: Hearing, writes: list[Any]) -> str:
    """News of a running program: written down, and the heartbeat of Train."""
    token = hearing.ledger.token(hearing.run, hearing.attempt, "train")
    if token is None or token.answered is not None:
        return "news of an attempt that is over"
    hearing.ledger.write(*writes)
    return "alive" if states.heartbeat(token.token) else "alive, though nobody waits any more"


def _finished(hearing: Hearing, now: datetime) -> str:
    """Only the chief's finish counts; it ends the attempt for all."""
    records = hearing.live()
    instance = str(hearing.detail["instance"])
    chief = records.chief(hearing.attempt) if records else None
    if chief is None or chief.instance != instance:
        return f"{instance} is not the chief of a live attempt"
    step = hearing.detail.get("step")
    reason = "the program finished" if step is None else f"the program finished at step {step}"
    entry = _said(hearing, "finished", now, reason=reason, step=step)
    attempts.end(hearing.ledger, hearing.run, hearing.attempt, entry, now, trouble=None, step=step)
    return "finished"


def _stopped(hearing: Hearing, now: datetime) -> str:
    """A host left with the restart code. Once the gang's checkpoint is made, the attempt was interrupted."""
    records = hearing.live()
    instance = str(hearing.detail["instance"])
    if records is None or instance not in records.hosts:
        return "not a host of a live attempt"
    why, step = str(hearing.detail.get("why", "")), hearing.detail.get("step")
    entry = _said(hearing, "stopped", now, reason=why, step=step)
    said = {"stopped": hearing.attempt, "stopped_at": now, "why": why}
    hearing.ledger.write(
        host_row(hearing.run, instance, said, only="launched"), event_row(hearing.run, entry)
    )
    records = hearing.ledger.known(hearing.run)
    if records.waiting(hearing.attempt, ("await_hosts",)):
        attempts.gather(hearing.ledger, records, hearing.attempt, now, lost={})
        return f"{instance} goes ({why}) before the gang is complete"
    if ledger_rows.others_must_be_asked(records, hearing.attempt, instance):
        hearing.ask_to_stop(records, besides=(instance,))
    if not ledger_rows.gang_has_stopped(records, hearing.attempt):
        return f"{instance} stopped ({why}); others have not yet"
    if ledger_rows.at_its_limit(records, hearing.attempt):
        return _limit_reached(hearing, records, step, now)
    trouble = ledger_rows.interruption(records, hearing.attempt, step)
    over = hearing.entry(
        "interrupted", at=now, source=Source.WORKFLOW, reason=trouble.reason, lost=list(trouble.lost)
    )
    attempts.end(hearing.ledger, hearing.run, hearing.attempt, over, now, trouble=trouble, step=step)
    return "the gang has stopped"


def _limit_reached(hearing: Hearing, records: Records, step: int | None, now: datetime) -> str:
    """The gang has saved and left since the run may cost or last no more."""
    reached = step if step is not None else (records.run.progress or {}).get("step")
    reason = deadlines.at_its_cap(records, now, step=reached)
    trouble = Trouble(error="LimitReached", reason=reason, step=reached, final=True)
    over = hearing.entry("capped", at=now, source=Source.WORKFLOW, reason=trouble.reason)
    attempts.end(hearing.ledger, hearing.run, hearing.attempt, over, now, trouble=trouble, step=reached)
    return f"the gang has left: {reason}"


def _failed(hearing: Hearing, now: datetime) -> str:
    records = hearing.live()
    instance = str(hearing.detail["instance"])
    if records is None or instance not in records.hosts:
        return "not a host of a live attempt"
    row = records.attempts.get(hearing.attempt)
    if row is not None and row.ending is Ending.FINISHED:
        return f"{instance} failed after the chief had finished, which is no error"
    return failed(hearing, hearing.detail, now)


def failed(hearing: Hearing, detail: Mapping[str, Any], now: datetime) -> str:
    """A host's `failed`, said by itself or found as its last words: the attempt is over for all, at once."""
    instance, by_program = str(detail["instance"]), detail.get("kind") == "program"
    reason = str(detail.get("reason", "no reason given"))
    trouble = Trouble(
        error="ProgramFailed" if by_program else _host_error(reason),
        reason=reason,
        lost=() if by_program else (instance,),
        step=detail.get("step"),
        tail=str(detail.get("tail") or ""),
        exit_code=detail.get("exit_code"),
        final=bool(detail.get("final")),
    )
    if not by_program:
        try:
            hearing.ledger.write(host_row(hearing.run, instance, {"lost": reason}, only="launched"))
        except AlreadyWrittenError:
            return f"{instance} is not a host of {hearing.run}"
    records = hearing.ledger.known(hearing.run)
    entry = hearing.entry(
        "failed",
        at=_at(hearing, now),
        source=Source.HOST,
        instance=instance,
        reason=reason,
        kind=detail.get("kind"),
    )
    hearing.ask_to_stop(records, besides=(instance,))
    attempts.end(hearing.ledger, hearing.run, hearing.attempt, entry, now, trouble=trouble, step=trouble.step)
    return f"{trouble.error}: {reason}"


def _hold(hearing: Hearing, now: datetime) -> str:
    """Somebody on the host wants it left alone for a while, whatever has become of its run. A permission that is
    missing for that is no trouble of the run's."""
    instance, until = str(hearing.detail["instance"]), hearing.detail["until"]
    try:
        found = {host.id: host.tags for host in instances.of_ids([instance]) if host.state in instances.LIVE}
        asked = wire.instant(until) if until else None
        match hold.grant(instance, hearing.run, found.get(instance), asked, now):
            case Hold(until=held):
                instances.tag({wire.stamp(held): [instance]}, hold.TAG)
                return f"{instance} is held until {wire.stamp(held)}"
            case NoHold(reason=reason):
                return f"not held: {reason}"
    except AccessDenied as denied:
        raise Infrastructure(f"{instance} cannot be held: {denied.reason}") from denied


def _host_error(reason: str) -> str:
    """The host says access denied in these words; all else is trouble of the start."""
    return "AccessDenied" if reason.startswith("access denied") else "StartFailed"


def _said(hearing: Hearing, word: str, now: datetime, *, reason: str | None = None, **detail: Any) -> Any:
    instance = str(hearing.detail["instance"])
    return hearing.entry(
        word, at=_at(hearing, now), source=Source.HOST, instance=instance, reason=reason, **detail
    )


def _at(hearing: Hearing, now: datetime) -> datetime:
    return wire.instant(hearing.detail["at"]) if hearing.detail.get("at") else now


WORDS: dict[str, Callable[[Hearing, datetime], str]] = {
    "ready": _ready,
    "started": _started,
    "progress": _progress,
    "checkpointed": _checkpointed,
    "finished": _finished,
    "stopped": _stopped,
    "failed": _failed,
    "hold": _hold,
}
