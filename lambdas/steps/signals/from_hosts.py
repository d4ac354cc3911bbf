"""What hosts say: credentials, ready, started, progress, checkpointed, finished, stopped, failed, hold, wiped
(contracts/signals.md)."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, assert_never

from lambdas.aws import states
from lambdas.aws.dynamodb.ledger import AlreadyWrittenError, Write, attempt_row, event_row, host_row, run_row
from lambdas.aws.ec2 import instances
from lambdas.core.edges.events import FromHost
from lambdas.core.patrol import hold
from lambdas.core.patrol.hold import Hold, NoHold
from lambdas.core.run import deadlines, leaving, silent_hosts
from lambdas.core.run.conclusion import steps
from lambdas.core.run.records import Records
from lambdas.core.run.recovery import Trouble
from lambdas.core.run.updates import AttemptUpdate, HostUpdate, RunUpdate
from lambdas.steps import attempts, orders
from lambdas.steps.observability import logger
from lambdas.steps.signals import credentials, from_people, newcomers, pooled
from lambdas.steps.signals.context import SignalContext
from trainyard.core.model.errors import AccessDenied, Infrastructure, ServiceUnavailable
from trainyard.protocol.cluster import Role, StopReason
from trainyard.protocol.ledger.attempt import Ending, TokenRow
from trainyard.protocol.tags import Tag
from trainyard.protocol.timeline import Entry, Source
from trainyard.values import wire

GIVEN_UP = "checkpoint"
"""The kind of a failure that is no host's and not the program's: a damaged checkpoint, which nobody restores again."""
OUT_OF_REACH = "service"
"""The kind of a failure that is AWS's: the host could not reach a service for too long, and is well."""
OVER = {"ProgramHangs": "hung", "Resized": "resized"}
"""The timeline's words for a gang that has left."""
NO_PART = "not a host of a live attempt"
OVER_BEFORE = "news of an attempt that is over"
PROGRESS = ("step", "steps", "epoch", "loss", "accuracy", "steps_per_second", "nan_since")


def handle(context: SignalContext, word: str, signal: FromHost, now: datetime) -> str:
    """Do what the signal asks for; what came of it, for the log."""
    act = BY_WORD.get(word)
    return act(context, signal, now) if act else f"a word nobody knows: {word}"


def _ready(context: SignalContext, signal: FromHost, now: datetime) -> str:
    """Repeated until the host is started. A survivor is ready before its next attempt has begun; one that was never
    started still names an older attempt. Both mean: it waits for the next start."""
    records = context.open_run()
    instance = signal.instance
    if records is None or instance not in records.hosts:
        return "not a host of a live run"
    attempt = max(context.attempt, records.run.attempt)
    joins = newcomers.is_one(records, instance)
    if joins:
        attempt = max(attempt, records.run.attempt + 1)
    if records.hosts[instance].ready < attempt:
        ready: HostUpdate = {"ready": attempt, "ready_at": now, "address": signal.address}
        reason = _unmanaged(signal.ssm_denied) if signal.ssm_denied else None
        entry = _entry(context, signal, "ready", now, boot_seconds=signal.boot_seconds, reason=reason)
        events = [] if _has_finished(records) else [event_row(context.run, entry)]
        _move(context, host_row(context.run, instance, ready, rising=(("ready", attempt),)), *events)
        records = context.ledger.known(context.run)
    attempts.gather(context.ledger, records, attempt, now, lost={})
    if joins:
        return f"{instance} is ready to join: {newcomers.go_on(context, now)}"
    if attempt > records.run.attempt:
        _check_silent_hosts(context.about(records.run.attempt), records, now)
    elif behind := silent_hosts.left_behind(records, attempt):
        _call_back(context, behind, attempt)
    return f"{instance} is ready for attempt {attempt}"


def _has_finished(records: Records) -> bool:
    """Return True if the last attempt ended well: hosts that are ready after it get no other attempt."""
    last = records.attempts.get(records.run.attempt)
    return last is not None and last.ending is Ending.FINISHED


def _call_back(context: SignalContext, hosts: tuple[str, ...], attempt: int) -> None:
    """An attempt may end in the moment in which it is started: nobody can be asked to leave it then, and an evaluator,
    which waits for no peer, stays in it alone."""
    started = orders.started(context.yard.bucket_name, context.run)
    if 0 < started < attempt:
        order = orders.Order("stop", context.run, started, hosts)
        orders.give(order, bucket=context.yard.bucket_name, document=context.yard.stop_document)


def _check_silent_hosts(context: SignalContext, records: Records, now: datetime) -> None:
    """A host that has left waits for the others: those that neither leave nor take orders are lost."""
    match silent_hosts.detect(records, context.attempt, now):
        case silent_hosts.LetThemLeave(reason=reason):
            logger.info("%s: %s", context.run, reason)
            _beat(records, context.attempt)
        case silent_hosts.AskToLeave(hosts=hosts, reason=reason):
            _beat(records, context.attempt)
            _ask_the_silent(context, records, hosts, reason, now)
        case silent_hosts.PresumeLost(hosts=hosts, all_of_them=all_of_them):
            have_it = orders.taken(context.yard.bucket_name, context.run, context.attempt)
            lost = tuple(host for host in hosts if all_of_them or host not in have_it)
            if lost:
                reason = silent_hosts.reason_of(lost, took_orders=all_of_them)
                _lose(context, records, lost, reason, now)
            else:
                _beat(records, context.attempt)
        case silent_hosts.Wait(reason=reason):
            logger.info("%s: %s", context.run, reason)
        case decision:
            assert_never(decision)


def _ask_the_silent(
    context: SignalContext, records: Records, hosts: tuple[str, ...], reason: str, now: datetime
) -> None:
    """Once: all that have left come by here."""
    asking = context.entry("asked to leave", at=now, source=Source.WORKFLOW, reason=reason)
    try:
        context.ledger.write(
            attempt_row(context.run, context.attempt, {"asked": now}, unless="asked"),
            event_row(context.run, asking),
        )
    except AlreadyWrittenError:
        return
    left = {host.instance for host in records.members(context.attempt)} - set(hosts)
    context.ask_to_stop(records, besides=left)


def _beat(records: Records, attempt: int) -> None:
    """The chief may have left and trains no more: while others leave, the heartbeat of Train is theirs that wait."""
    token = records.waiting(attempt, ("train",))
    if token:
        states.heartbeat(token.token)


def _lose(
    context: SignalContext, records: Records, lost: tuple[str, ...], reason: str, now: datetime
) -> None:
    step = records.attempts[context.attempt].reached
    trouble = Trouble(error="HostLost", reason=reason, lost=lost, step=step)
    entry = context.entry("host lost", at=now, source=Source.WORKFLOW, reason=reason, lost=list(lost))
    context.ledger.write(*(host_row(context.run, host, {"lost": reason}) for host in lost))
    context.end(entry, now, trouble=trouble, step=step)


def _started(context: SignalContext, signal: FromHost, now: datetime) -> str:
    role = f"{signal.role}-{signal.index}"
    event = event_row(context.run, _entry(context, signal, "started", now, role=role))
    if signal.role != Role.CHIEF:
        return _alive(context, None, event)
    started: AttemptUpdate = {"started": signal.at or now}
    return _alive(context, attempt_row(context.run, context.attempt, started, unless="started"), event)


def _progress(context: SignalContext, signal: FromHost, now: datetime) -> str:
    """Write how far the program has come into the rows of the run and of the attempt; the attempt's row also keeps
    where a restarted program continued."""
    token = _token(context)
    if token is None:
        return OVER_BEFORE
    _note_progress(context, signal, now)
    return _beat_train(token)


def _note_progress(context: SignalContext, signal: FromHost, now: datetime) -> None:
    """Write how far the program has come, unless later news is written already."""
    run, attempt, at = context.run, context.attempt, signal.at or now
    facts = {key: getattr(signal, key) for key in PROGRESS}
    newest: tuple[tuple[str, Any], ...] = (("progress.attempt", attempt), ("progress.at", wire.stamp(at)))
    if signal.step is not None:
        newest = (*newest, ("progress.step", signal.step))  # two words of one millisecond
    progress: RunUpdate = {"progress": facts | {"at": at, "attempt": attempt}}
    reported: AttemptUpdate = {"reported": signal.step} if signal.step is not None else {}
    resumed: AttemptUpdate = {"resumed": signal.resumed} if signal.resumed else {}
    rows = [attempt_row(run, attempt, {**reported, **resumed})] if reported or resumed else []
    try:
        context.ledger.write(run_row(run, progress, rising=newest), *rows)
    except AlreadyWrittenError:
        logger.info("%s: late or repeated progress of attempt %s", run, attempt)
        if reported:
            _move(context, attempt_row(run, attempt, reported, rising=(("reported", signal.step),)))
        if resumed:
            _move(context, attempt_row(run, attempt, resumed, unless="resumed"))


def _checkpointed(context: SignalContext, signal: FromHost, now: datetime) -> str:
    entry, at = (
        _entry(context, signal, "checkpointed", now, step=signal.step, key=signal.key),
        signal.at or now,
    )
    saved: AttemptUpdate = {"saved": at}
    if signal.step is not None:
        saved["checkpointed"] = signal.step
    newest = attempt_row(context.run, context.attempt, saved, rising=(("saved", wire.stamp(at)),))
    return _alive(context, newest, event_row(context.run, entry))


def _alive(context: SignalContext, news: Write | None, event: Write) -> str:
    """Write news of a running program, and send the heartbeat of Train."""
    token = _token(context)
    if token is None:
        return OVER_BEFORE
    if news:
        _move(context, news, event)
    else:
        context.ledger.write(event)
    return _beat_train(token)


def _move(context: SignalContext, news: Write, *events: Write) -> None:
    """Write the news and its events. If the row has later news already, write the events only."""
    try:
        context.ledger.write(news, *events)
    except AlreadyWrittenError:
        logger.info("%s: late or repeated news changes nothing of %s", context.run, news.sk)
        if events:
            context.ledger.write(*events)


def _token(context: SignalContext) -> TokenRow | None:
    """Return the token of Train; None once the attempt has ended."""
    token = context.ledger.token(context.run, context.attempt, "train")
    return token if token and token.answered is None else None


def _beat_train(token: TokenRow) -> str:
    return "alive" if states.heartbeat(token.token) else "alive, though nobody waits any more"


def _finished(context: SignalContext, signal: FromHost, now: datetime) -> str:
    """Only the chief's finish counts; it ends the attempt for all."""
    records = context.live()
    instance = signal.instance
    chief = records.chief(context.attempt) if records else None
    if chief is None or chief.instance != instance:
        return f"{instance} is not the chief of a live attempt"
    step = signal.step
    reason = "the program finished" if step is None else f"the program finished at step {step}"
    reason = f"{reason}; {signal.left}" if signal.left else reason
    reason = f"{reason}, but {'; '.join(signal.but)}" if signal.but else reason
    entry = _entry(context, signal, "finished", now, reason=reason, step=step)
    if step is not None:
        _note_progress(context, signal, now)
    if signal.but:
        context.ledger.write(attempt_row(context.run, context.attempt, {"but": signal.but}))
    context.end(entry, now, trouble=None, step=step, resumed=signal.resumed)
    return "finished"


def _if_it_takes_part(context: SignalContext, instance: str) -> Records | None:
    """The records, if the run goes on, this attempt has begun and the host is in it: of one that EC2 took back before
    the gang was launched, patrol repeats what it has left. While the gang is being launched nobody's part is known."""
    records = context.open_run()
    if records is None or context.attempt > records.run.attempt:
        return None
    row = records.attempts.get(context.attempt)
    in_it = instance in (row.hosts if row and row.hosts else records.hosts)
    return records if in_it else None


def _stopped(context: SignalContext, signal: FromHost, now: datetime) -> str:
    """A host left with the restart code. Once the gang's checkpoint is made, the attempt was interrupted. Heard when
    the next attempt has begun, it is written down all the same: the timeline says of every host how it left."""
    instance, records = signal.instance, _if_it_takes_part(context, signal.instance)
    if records is None:
        return _newcomer_lost(context, signal, now) or NO_PART
    why, step = signal.why or "", signal.step
    said = f"{why}: {signal.reason}" if signal.reason else why
    entry = _entry(context, signal, "stopped", now, reason=said, step=step)
    is_new = records.hosts[instance].stopped < context.attempt
    stopped: HostUpdate = {"stopped": context.attempt, "stopped_at": now, "why": why}
    left = host_row(context.run, instance, stopped, rising=(("stopped", context.attempt),))
    _move(context, left, event_row(context.run, entry))
    chief = records.chief(context.attempt)
    if chief and chief.instance == instance and (signal.step is not None or signal.resumed):
        _note_progress(context, signal, now)
    records = context.ledger.known(context.run)
    if records.run.attempt != context.attempt:
        return f"{instance} stopped ({why}), heard when attempt {context.attempt} was over"
    if records.waiting(context.attempt, ("await_hosts",)):
        attempts.gather(context.ledger, records, context.attempt, now, lost={})
        return f"{instance} goes ({why}) before the gang is complete"
    if leaving.others_must_be_asked(records, context.attempt, instance):
        context.ask_to_stop(records, besides=(instance,))
    if not leaving.gang_has_stopped(records, context.attempt):
        if is_new:  # patrol repeats it every minute, alive or not
            _beat(records, context.attempt)
        return f"{instance} stopped ({why}); others have not yet"
    # The last to leave may be one that knows no step.
    step = records.attempts[context.attempt].reached_with(step)
    if records.run.stopping:
        from_people.end(context, records, step, now)
        return "the gang has left: somebody has stopped the run"
    if leaving.at_its_limit(records, context.attempt):
        return _limit_reached(context, records, step, now)
    trouble = leaving.interruption(records, context.attempt, step)
    over = context.entry(
        OVER.get(trouble.error, "interrupted"),
        at=now,
        source=Source.WORKFLOW,
        reason=trouble.reason,
        lost=list(trouble.lost),
    )
    context.end(over, now, trouble=trouble, step=step)
    return "the gang has stopped"


def _newcomer_lost(context: SignalContext, signal: FromHost, now: datetime) -> str | None:
    """What becomes of a host that was to join and fails, or goes; None for any other. One that is told to leave an
    attempt gets ready again."""
    if signal.why == StopReason.ASKED:
        return None
    reason = signal.reason or f"it leaves before it could join ({signal.why})"
    return newcomers.lose(context, signal.instance, reason, now)


def _limit_reached(context: SignalContext, records: Records, step: int | None, now: datetime) -> str:
    """The gang has saved and left since the run may cost or last no more."""
    reached = step if step is not None else steps.walk(records.attempts.values()).done
    reason = deadlines.at_its_cap(records, now, step=reached)
    trouble = Trouble(error="LimitReached", reason=reason, step=reached, final=True)
    over = context.entry("capped", at=now, source=Source.WORKFLOW, reason=trouble.reason)
    context.end(over, now, trouble=trouble, step=step)
    return f"the gang has left: {reason}"


def _failed(context: SignalContext, signal: FromHost, now: datetime) -> str:
    instance, records = signal.instance, _if_it_takes_part(context, signal.instance)
    if records is None or records.run.attempt != context.attempt:
        return _newcomer_lost(context, signal, now) or NO_PART
    row = records.attempts.get(context.attempt)
    if row is not None and row.ending is Ending.FINISHED:
        return f"{instance} failed after the chief had finished, which is no error"
    return failed(context, signal, now)


def failed(context: SignalContext, signal: FromHost, now: datetime) -> str:
    """A host's `failed`, signalled or found as its last words: the attempt is over for all, at once. Who has given a
    damaged checkpoint up is well, and so are the others."""
    instance, by_program = signal.instance, signal.kind == "program"
    is_well = signal.kind in (GIVEN_UP, OUT_OF_REACH)
    reason = signal.reason or "no reason given"
    if not by_program and not is_well:
        try:
            context.ledger.write(host_row(context.run, instance, {"lost": reason}))
        except AlreadyWrittenError:
            return f"{instance} is not a host of {context.run}"
    records = context.ledger.known(context.run)
    row = records.attempts.get(context.attempt)
    trouble = Trouble(
        error="ProgramFailed" if by_program else _host_error(signal.kind, reason, signal.exit_code),
        reason=reason,
        lost=() if by_program or is_well else (instance,),
        step=row.reached_with(signal.step) if row else signal.step,
        tail=signal.tail or "",
        exit_code=signal.exit_code,
        final=bool(signal.final),
        all_well=is_well,
    )
    entry = _entry(context, signal, "failed", now, reason=reason, kind=signal.kind, step=signal.step)
    chief = records.chief(context.attempt)
    if signal.step is not None and chief and chief.instance == instance:
        _note_progress(context, signal, now)
    context.ask_to_stop(records, besides=(instance,))
    context.end(entry, now, trouble=trouble, step=trouble.step, resumed=signal.resumed)
    return f"{trouble.error}: {reason}"


def _hold(context: SignalContext, signal: FromHost, now: datetime) -> str:
    """Somebody on the host wants it left alone for a while, whatever has become of its run. A permission that is
    missing for that is no trouble of the run's."""
    instance = signal.instance
    try:
        found = {host.id: host.tags for host in instances.of_ids([instance]) if host.state in instances.LIVE}
        match hold.grant(instance, context.run, found.get(instance), signal.until, now):
            case Hold(until=held):
                instances.tag({wire.stamp(held): [instance]}, Tag.HOLD)
                return f"{instance} is held until {wire.stamp(held)}"
            case NoHold(reason=reason):
                return f"not held: {reason}"
            case answer:
                assert_never(answer)
    except AccessDenied as denied:
        raise Infrastructure(f"{instance} cannot be held: {denied.reason}") from denied


def _unmanaged(denied: str) -> str:
    """Its program runs all the same; what needs Systems Manager does not."""
    return (
        f"Systems Manager will not know this host: its role lacks {denied}. It trains, but takes no session and "
        "becomes no image; give the role AmazonSSMManagedInstanceCore"
    )


def _host_error(kind: str | None, reason: str, exit_code: int | None) -> str:
    """Return the error word of a host's trouble. A host says access denied in these words, and the exit code of a
    program that has ended."""
    if kind == OUT_OF_REACH:
        return ServiceUnavailable.__name__
    if reason.startswith("access denied") or ": access denied: " in reason:
        return "AccessDenied"
    return "StartFailed" if exit_code is None else "UploadFailed"


def _entry(
    context: SignalContext,
    signal: FromHost,
    event: str,
    now: datetime,
    *,
    reason: str | None = None,
    **detail: str | float | None,
) -> Entry:
    left_out = "; ".join(signal.left_out) or None
    return context.entry(
        event,
        at=signal.at or now,
        source=Source.HOST,
        instance=signal.instance,
        reason=reason,
        left_out=left_out,
        **detail,
    )


BY_WORD: Mapping[str, Callable[[SignalContext, FromHost, datetime], str]] = {
    "credentials": credentials.give,
    "ready": _ready,
    "started": _started,
    "progress": _progress,
    "checkpointed": _checkpointed,
    "finished": _finished,
    "stopped": _stopped,
    "failed": _failed,
    "hold": _hold,
    "wiped": pooled.wiped,
}
