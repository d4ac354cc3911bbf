"""The end of a host's part in an attempt: its program has finished or stopped, or the program or host has failed."""

from datetime import datetime
from typing import assert_never

from lambdas.aws.dynamodb.ledger import AlreadyWrittenError
from lambdas.aws.dynamodb.rows import attempt_row, event_row, host_row
from lambdas.core.run import HostUpdate, deadlines, draining
from lambdas.core.run.conclusion import steps
from lambdas.core.run.records import Records
from lambdas.core.run.recovery import Trouble
from lambdas.steps import attempts
from lambdas.steps.signals import from_people, joining, progress, quarantine
from lambdas.steps.signals.context import SignalContext
from trainyard.core.model.errors import HardwareFailed, ServiceUnavailable
from trainyard.protocol import signals
from trainyard.protocol.ledger.attempt import Ending
from trainyard.protocol.signals import Failed, FailureKind, Finished, Sent, Stopped, StopReason
from trainyard.protocol.timeline import Source

OVER = {"ProgramHangs": "hung", "Resized": "resized", "Preempted": "preempted"}
"""Events of the timeline for a gang that has left."""
NO_PART = "not a host of a live attempt"


def handle(context: SignalContext, sent: Sent, signal: signals.Ending, now: datetime) -> str:
    """Handle the end of a host's part in an attempt; return the result for the log."""
    match signal:
        case Finished():
            return handle_finished(context, sent, signal, now)
        case Stopped():
            return handle_stopped(context, sent, signal, now)
        case Failed():
            return handle_failed(context, sent, signal, now)
        case unknown:
            assert_never(unknown)


def handle_finished(context: SignalContext, sent: Sent, signal: Finished, now: datetime) -> str:
    """End the attempt for all hosts if the chief has finished."""
    records = context.live()
    instance = sent.instance
    chief = records.chief(context.attempt) if records else None
    if chief is None or chief.instance != instance:
        return f"{instance} is not the chief of a live attempt"
    step = signal.step
    reason = "the program finished" if step is None else f"the program finished at step {step}"
    reason = f"{reason}; {signal.working_folder}" if signal.working_folder else reason
    reason = f"{reason}, but {'; '.join(signal.but)}" if signal.but else reason
    entry = context.host_entry(sent, "finished", now, reason=reason, step=step)
    if step is not None or signal.scalars:
        progress.note(context, sent, signal, now)
    if signal.but:
        context.ledger.write(attempt_row(context.run, context.attempt, {"but": signal.but}))
    context.end(entry, now, trouble=None, step=step, resumed=signal.resumed)
    return "finished"


def handle_stopped(context: SignalContext, sent: Sent, signal: Stopped, now: datetime) -> str:
    """Record that a host has left, even after the next attempt has begun. End the attempt once the whole gang has
    left."""
    instance, records = sent.instance, _records_of_member(context, sent.instance)
    if records is None:
        return _give_up_joining_host(context, sent, signal, now) or NO_PART
    why, step = signal.why or "", signal.step
    said = f"{why}: {signal.reason}" if signal.reason else why
    entry = context.host_entry(sent, "stopped", now, reason=said, step=step)
    is_new = records.hosts[instance].stopped < context.attempt
    stopped: HostUpdate = {
        "stopped": context.attempt,
        "stopped_at": now,
        "why": why,
        "details": signal.reason or "",
    }
    left = host_row(context.run, instance, stopped, rising=(("stopped", context.attempt),))
    context.move(left, event_row(context.run, entry))
    chief = records.chief(context.attempt)
    if chief and chief.instance == instance and (signal.step is not None or signal.resumed):
        progress.note(context, sent, signal, now)
    records = context.ledger.require(context.run)
    if records.run.attempt != context.attempt:
        return f"{instance} stopped ({why}), reported after the end of attempt {context.attempt}"
    if records.waiting(context.attempt, ("await_hosts",)):
        attempts.gather(context.ledger, records, context.attempt, now, lost={})
        return f"{instance} leaves ({why}) before the gang is complete"
    if draining.others_need_order(records, context.attempt, instance):
        context.order_to_stop(records, besides=(instance,))
    if not draining.gang_has_stopped(records, context.attempt):
        if is_new:  # patrol repeats this signal every minute
            context.beat(records)
        return f"{instance} stopped ({why}); other hosts have not stopped yet"
    # The last host may report no step.
    step = records.attempts[context.attempt].last_step_with(step)
    if records.run.stopping:
        from_people.end(context, records, step, now)
        return "the gang has left, because a user stopped the run"
    if draining.is_at_limit(records, context.attempt):
        return _end_at_limit(context, records, step, now)
    trouble = draining.interruption(records, context.attempt, step, _read_saved_step(context, records))
    over = context.entry(
        OVER.get(trouble.error, "interrupted"),
        at=now,
        source=Source.WORKFLOW,
        reason=trouble.reason,
        lost=list(trouble.lost),
    )
    context.end(over, now, trouble=trouble, step=step)
    return "the gang has stopped"


def _read_saved_step(context: SignalContext, records: Records) -> int | None:
    """Return the step of the last checkpoint of a run that leaves for another; None for other runs. No signal reports
    the checkpoint that a gang saves when it leaves."""
    if records.run.leaves_for is None:
        return None
    from lambdas.steps.signals import leaving  # few runs leave for others, so that signal starts faster

    return leaving.read_saved_step(context)


def handle_failed(context: SignalContext, sent: Sent, signal: Failed, now: datetime) -> str:
    """End the attempt if the host takes part in it and the chief has not finished."""
    instance, records = sent.instance, _records_of_member(context, sent.instance)
    if records is None or records.run.attempt != context.attempt:
        return _give_up_joining_host(context, sent, signal, now) or NO_PART
    row = records.attempts.get(context.attempt)
    if row is not None and row.ending is Ending.FINISHED:
        return f"{instance} failed after the chief had finished, which is not an error"
    return end_failed(context, sent, signal, now)


def end_failed(context: SignalContext, sent: Sent, signal: Failed, now: datetime) -> str:
    """End the attempt for all hosts at once, because one has failed. A host that rejected a damaged checkpoint is
    healthy, and so are the others."""
    instance, by_program = sent.instance, signal.kind is FailureKind.PROGRAM
    is_well, reason = signal.kind.leaves_host_well, signal.reason
    if not by_program and not is_well:
        try:
            if signal.kind is FailureKind.HARDWARE:
                quarantine.give_up(context, sent, reason, now)
            else:
                context.ledger.write(host_row(context.run, instance, {"lost": reason}))
        except AlreadyWrittenError:
            return f"{instance} is not a host of {context.run}"
    records = context.ledger.require(context.run)
    row = records.attempts.get(context.attempt)
    trouble = Trouble(
        error="ProgramFailed" if by_program else _host_error(signal.kind, reason, signal.exit_code),
        reason=reason,
        lost=() if by_program or is_well else (instance,),
        step=row.last_step_with(signal.step) if row else signal.step,
        tail=signal.tail,
        exit_code=signal.exit_code,
        final=signal.final,
        all_well=is_well,
    )
    entry = context.host_entry(sent, "failed", now, reason=reason, kind=signal.kind, step=signal.step)
    chief = records.chief(context.attempt)
    if signal.step is not None and chief and chief.instance == instance:
        progress.note(context, sent, signal, now)
    context.order_to_stop(records, besides=(instance,))
    context.end(entry, now, trouble=trouble, step=trouble.step, resumed=signal.resumed)
    return f"{trouble.error}: {reason}"


def _records_of_member(context: SignalContext, instance: str) -> Records | None:
    """Return the records if the run is open, this attempt has begun and the host is in it. During a launch every host
    of the run counts. If EC2 takes a host back before that, patrol repeats the signal that the host left."""
    records = context.open_run()
    if records is None or context.attempt > records.run.attempt:
        return None
    row = records.attempts.get(context.attempt)
    in_it = instance in (row.hosts if row and row.hosts else records.hosts)
    return records if in_it else None


def _give_up_joining_host(
    context: SignalContext, sent: Sent, signal: Stopped | Failed, now: datetime
) -> str | None:
    """Give up a joining host that fails or leaves; return the result, or None for every other host. A host that was
    ordered to leave an attempt gets ready again."""
    if isinstance(signal, Failed):
        return joining.lose(context, sent.instance, signal.reason, now)
    if signal.why is StopReason.ASKED:
        return None
    reason = signal.reason or f"it left before it could join ({signal.why})"
    return joining.lose(context, sent.instance, reason, now)


def _end_at_limit(context: SignalContext, records: Records, step: int | None, now: datetime) -> str:
    """End a run whose gang has saved and left because its hours or dollars are used up."""
    reached = step if step is not None else steps.walk(records.attempts.values()).done
    reason = deadlines.describe_cap(records, now, step=reached)
    trouble = Trouble(error="LimitReached", reason=reason, step=reached, final=True)
    over = context.entry("capped", at=now, source=Source.WORKFLOW, reason=trouble.reason)
    context.end(over, now, trouble=trouble, step=step)
    return f"the gang has left: {reason}"


def _host_error(kind: FailureKind, reason: str, exit_code: int | None) -> str:
    """Return the error of a failed host. Its reason marks denials, and a program that has ended has an exit code."""
    if kind is FailureKind.SERVICE:
        return ServiceUnavailable.__name__
    if kind is FailureKind.HARDWARE:
        return HardwareFailed.__name__
    if reason.startswith("access denied") or ": access denied: " in reason:
        return "AccessDenied"
    return "StartFailed" if exit_code is None else "UploadFailed"
