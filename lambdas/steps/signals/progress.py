"""Progress of a program: it started, made steps or saved a checkpoint. Each signal is a heartbeat of Train."""

from datetime import datetime
from typing import Any

from lambdas.aws import states
from lambdas.aws.dynamodb.ledger import AlreadyWrittenError
from lambdas.aws.dynamodb.rows import attempt_row, event_row, run_row
from lambdas.aws.dynamodb.write import Write
from lambdas.core.run import AttemptUpdate, RunUpdate
from lambdas.steps.observability import logger
from lambdas.steps.signals import rungs
from lambdas.steps.signals.context import SignalContext
from trainyard.protocol import signals
from trainyard.protocol.cluster import Role
from trainyard.protocol.ledger.attempt import TokenRow
from trainyard.protocol.signals import Checkpointed, HowFar, Progress, Sent, Started
from trainyard.protocol.timeline import Source
from trainyard.values import serialization

OVER_BEFORE = "a signal of an attempt that is over"
PROGRESS = ("step", "steps", "epoch", "loss", "accuracy", "steps_per_second", "nan_since")


def handle_started(context: SignalContext, sent: Sent, signal: Started, now: datetime) -> str:
    """Record that a program runs. The start of the chief is the start of the attempt."""
    role = f"{signal.role}-{signal.index}"
    reason = "; ".join(filter(None, (signal.instead, signal.checked))) or None
    event = event_row(context.run, context.host_entry(sent, "started", now, role=role, reason=reason))
    if signal.role != Role.CHIEF:
        return _alive(context, None, event)
    started: AttemptUpdate = {"started": sent.at or now}
    return _alive(context, attempt_row(context.run, context.attempt, started, unless="started"), event)


def progress(context: SignalContext, sent: Sent, signal: Progress, now: datetime) -> str:
    """Write the progress into the rows of the run and the attempt. The attempt's row also keeps the step at which a
    restarted program continued."""
    token = _token(context)
    if token is None:
        return OVER_BEFORE
    note(context, sent, signal, now)
    if signal.slow or signal.degraded:
        _note_slow(context, sent, signal, now)
    stopped = rungs.compare(context, signal, now)
    return stopped or _beat_train(token)


def note(context: SignalContext, sent: Sent, signal: HowFar, now: datetime) -> None:
    """Write the progress, unless later progress is recorded."""
    run, attempt, at = context.run, context.attempt, sent.at or now
    facts = {key: getattr(signal, key) for key in PROGRESS}
    newest: tuple[tuple[str, Any], ...] = (
        ("progress.attempt", attempt),
        ("progress.at", serialization.timestamp(at)),
    )
    if signal.step is not None:
        newest = (*newest, ("progress.step", signal.step))  # two signals may have the same millisecond
    progress: RunUpdate = {"progress": facts | {"at": at, "attempt": attempt}}
    if signal.scalars:
        progress["scalars"] = signal.scalars
    if signal.limited:
        progress["limited"] = signal.limited
    if signal.objective:
        progress["objective"] = max(signal.objective, key=lambda point: point.step)
    reported: AttemptUpdate = {"reported": signal.step} if signal.step is not None else {}
    resumed: AttemptUpdate = {"resumed": signals.to_detail(signal.resumed)} if signal.resumed else {}
    rows = [attempt_row(run, attempt, {**reported, **resumed})] if reported or resumed else []
    try:
        context.ledger.write(run_row(run, progress, rising=newest), *rows)
    except AlreadyWrittenError:
        logger.info("%s: late or repeated progress of attempt %s", run, attempt)
        if reported:
            context.move(attempt_row(run, attempt, reported, rising=(("reported", signal.step),)))
        if resumed:
            context.move(attempt_row(run, attempt, resumed, unless="resumed"))


def _note_slow(context: SignalContext, sent: Sent, signal: HowFar, now: datetime) -> None:
    """Name each slow host in the run's row, and once on the timeline. Hosts repeat it with each progress."""
    row = context.ledger.run(context.run)
    known = row.findings if row else {}
    slow = {f"slow {host}": said for host, said in signal.slow.items() if f"slow {host}" not in known}
    lasting = {f"gpu {host}": said for host, said in signal.degraded.items()}
    new = slow | {subject: said for subject, said in lasting.items() if known.get(subject) != said}
    if row is None or not new:
        return
    findings = {**known, **new}
    entries = [
        context.entry(
            "slow host",
            at=sent.at or now,
            source=Source.HOST,
            instance=subject.partition(" ")[2],
            reason=said,
        )
        for subject, said in new.items()
        if subject not in known
    ]
    context.ledger.write(
        run_row(context.run, {"findings": findings}), *(event_row(context.run, each) for each in entries)
    )


def handle_checkpointed(context: SignalContext, sent: Sent, signal: Checkpointed, now: datetime) -> str:
    """Record a complete checkpoint in the bucket."""
    entry, at = (
        context.host_entry(sent, "checkpointed", now, step=signal.step, key=signal.key),
        sent.at or now,
    )
    saved: AttemptUpdate = {"saved": at}
    if signal.step is not None:
        saved["checkpointed"] = signal.step
    newest = attempt_row(
        context.run, context.attempt, saved, rising=(("saved", serialization.timestamp(at)),)
    )
    return _alive(context, newest, event_row(context.run, entry))


def _alive(context: SignalContext, update: Write | None, event: Write) -> str:
    """Write values of a running program, and send the heartbeat of Train."""
    token = _token(context)
    if token is None:
        return OVER_BEFORE
    if update:
        context.move(update, event)
    else:
        context.ledger.write(event)
    return _beat_train(token)


def _token(context: SignalContext) -> TokenRow | None:
    """Return the task token of Train; None once the attempt has ended."""
    token = context.ledger.token(context.run, context.attempt, "train")
    return token if token and token.answered is None else None


def _beat_train(token: TokenRow) -> str:
    return "alive" if states.heartbeat(token.token) else "alive, but Train no longer waits"
