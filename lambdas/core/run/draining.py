"""Why a gang left its attempt, and the trouble that Recover gets."""

from collections.abc import Collection
from datetime import datetime

from lambdas.core.run.records import Records
from lambdas.core.run.recovery import Trouble
from trainyard.protocol import keys
from trainyard.protocol.ledger.run import Preemption
from trainyard.protocol.signals import StopReason
from trainyard.protocol.times import PROGRAM_SILENT
from trainyard.values.quantities import format_count, format_roughly

STOPPED_FOR_OTHERS = (StopReason.PEER, StopReason.KILLED, StopReason.HANGS)
"""Reasons for which a chief leaves without a checkpoint of the whole gang, while other hosts may stay in the
attempt."""


def gang_has_stopped(records: Records, attempt: int) -> bool:
    """Return True once the attempt's last checkpoint is complete: every living member has left, or the chief has left
    on its own account. If the chief left because a peer vanished, its program was killed, or it hung, a silent member
    may be that peer, so its signal, an event of EC2, or silent_hosts.py has to settle it first.

    A member that is ready for a later attempt has left this one, too.
    """
    members, chief = records.members(attempt), records.chief(attempt)
    stopped = [host for host in members if host.stopped >= attempt]
    silent = [host for host in members if host.lives and host not in stopped and host.ready <= attempt]
    chief_left = chief is not None and chief in stopped and chief.why not in STOPPED_FOR_OTHERS
    return bool(stopped) and (not silent or chief_left)


def others_need_order(records: Records, attempt: int, instance: str) -> bool:
    """Return True if the other programs end only by an order. Parameter servers and their workers serve until then, and
    their chief trains on without the host. With all-reduce the others notice a lost host unless they hang, too. An
    evaluator neither notices nor is noticed."""
    job, host = records.job, records.hosts[instance]
    if host.stopped < attempt or host.why == StopReason.ASKED:
        return False
    is_noticed = job is None or not (job.cluster.strategy.is_asynchronous or job.cluster.evaluator)
    return host.why == StopReason.HANGS or not is_noticed


def is_at_limit(records: Records, attempt: int) -> bool:
    """Return True if the gang leaves because the hours or dollars are used up, by order of patrol or by a host's own
    check."""
    row = records.attempts.get(attempt)
    asked = row is not None and row.capped is not None
    return asked or any(
        host.stopped >= attempt and host.why == StopReason.LIMIT for host in records.members(attempt)
    )


MOUNT = "the mount of "
"""The first words of a host about a mount of data that it has lost (training/host/agent/mounts.py)."""
KILLED_ON = "the program was killed on"


def interruption(records: Records, attempt: int, step: int | None, saved: int | None = None) -> Trouble:
    """Return the trouble for Recover after a gang left: the hosts that go, if any, and the step reached. `saved` is the
    step of the last checkpoint in the bucket, read only for a preemption.

    Hosts that trained together in this attempt can do so again; others are suspected. After a hang they are suspected
    only if the attempt before hung, too, because all of them have answered. A second hang in a row is final if the run
    has reached neither a step nor a checkpoint.
    """
    members = records.members(attempt)
    going = tuple(
        host.instance for host in members if host.why == StopReason.INTERRUPTED or host.warned or host.lost
    )
    error, well, final = "Interrupted", not going and _has_trained(records, attempt), False
    row = records.attempts[attempt]
    killed = _name_stopped_hosts(records, attempt, StopReason.KILLED)
    if _name_stopped_hosts(records, attempt, StopReason.HANGS):
        error, well = (
            "ProgramHangs",
            not going and (_has_trained(records, attempt) or not _hung(records, attempt - 1)),
        )
        before = records.attempts.get(attempt - 1)
        lost_mount = _name_mount(records, attempt) or (before and (before.reason or "").startswith(MOUNT))
        final = _hung(records, attempt - 1) and not lost_mount and not _has_come_anywhere(records)
        reason = _hangs(records, attempt, going)
        if final:
            reason = f"{reason}. It hung twice in a row, before its first step and its first checkpoint"
    elif row.preempted and records.run.leaves_for and not killed:
        error, well, going = "Preempted", False, ()
        reason = describe_preemption(records, records.run.leaves_for, saved)
    elif going:
        what = _saved_before_it_left(records, attempt)
        reason = f"the gang has left because hosts were interrupted or lost: {', '.join(going)}; {what}"
    elif row.growing and not killed:
        error, well = "Resized", True
        hosts = format_count(len(records.initial_hosts(attempt + 1)), "host")
        sizes = f"to continue with {hosts} instead of {len(members)}"
        reason = f"the gang has saved and left, {sizes}; {_saved_before_it_left(records, attempt)}"
    elif killed:
        others = ", and the others left for a restart" if len(members) > 1 else ", for a restart"
        reason = f"{KILLED_ON} {killed}{others}; all hosts are running"
        final = _killed_at_same_step(records, attempt)
        if final:
            reason = f"{reason}. It was killed twice in a row without a new step or checkpoint in between"
    else:
        reason = "the programs left for a restart; all hosts are running"
    return Trouble(error=error, reason=reason, lost=going, step=step, all_well=well, final=final)


def _name_stopped_hosts(records: Records, attempt: int, why: StopReason) -> str:
    """Return the names of the members that left the attempt for this reason."""
    members = records.members(attempt)
    return ", ".join(host.instance for host in members if host.stopped >= attempt and host.why == why)


def _hangs(records: Records, attempt: int, going: Collection[str]) -> str:
    """Describe a hang. The reason names the chief's log only, because no signal shows which program the others wait
    for."""
    minutes = PROGRAM_SILENT.total_seconds() / 60
    log = f"{keys.logs(records.run.run, attempt)}chief-0/"
    hosts = f"{', '.join(going)} left meanwhile" if going else "all hosts are running"
    if mount := _name_mount(records, attempt):
        return f"{mount}, so the program was ended; {hosts}"
    return (
        f"for {minutes:g} minutes the program has shown no work (no progress, no new line or file, no real share of a "
        f"processor or GPU on any host), so it was ended: it hangs; {hosts}; {log} contains its log"
    )


def _name_mount(records: Records, attempt: int) -> str:
    """Return which mount of data was lost, if a host reports one. The program itself does not hang then."""
    members = (host for host in records.members(attempt) if host.stopped >= attempt)
    told = next((host for host in members if host.why == StopReason.HANGS and host.details), None)
    return f"{told.details} ({told.instance})" if told else ""


def _hung(records: Records, attempt: int) -> bool:
    row = records.attempts.get(attempt)
    return row is not None and row.error == "ProgramHangs"


def _killed_at_same_step(records: Records, attempt: int) -> bool:
    """Return True if the attempt before was killed, too, and this one came no further: the program itself is the
    cause."""
    row, before = records.attempts[attempt], records.attempts.get(attempt - 1)
    if before is None or not (before.reason or "").startswith(KILLED_ON):
        return False
    reached, reached_before = row.last_step, before.last_step
    if reached is None and reached_before is None:
        return row.saved is None or before.saved is not None
    return (reached or 0) <= (reached_before or 0)


def _has_come_anywhere(records: Records) -> bool:
    """Return True if any attempt reported a step or a checkpoint, or began from one."""
    return any(row.last_step or row.from_step or row.saved for row in records.attempts.values())


def _saved_before_it_left(records: Records, attempt: int) -> str:
    left = [
        host.stopped_at for host in records.members(attempt) if host.stopped >= attempt and host.stopped_at
    ]
    return last_save(records, max(left, default=None))


def last_save(records: Records, until: datetime | None) -> str:
    """Describe the run's last checkpoint: its age at `until` (None if unknown), and its step if the program reports
    steps."""
    saves = [(row.saved, row.checkpointed) for row in records.attempts.values() if row.saved]
    if not saves:
        return "no checkpoint has been saved"
    at, step = max(saves, key=lambda save: save[0])
    age = max(0.0, (until - at).total_seconds()) if until else None
    old = "is in the bucket" if age is None else f"was {format_roughly(age)} old"
    return f"its last save{'' if step is None else f', of step {step:,},'} {old}"


def _last_saved_step(records: Records) -> int | None:
    """Return the step where the run continues; None if unknown."""
    rows = records.attempts.values()
    known = [step for row in rows for step in (row.checkpointed, row.from_step) if step]
    return max(known, default=None)


def describe_preemption(records: Records, left: Preemption, saved: int | None = None) -> str:
    """Describe a preemption in one sentence: the other run, and the step where this one continues. `saved` is the step
    of the checkpoint in the bucket, if it was read."""
    step = saved or _last_saved_step(records)
    start = "its last checkpoint" if step is None else f"step {step:,}"
    return f"stopped for run {left.run} of priority {left.priority}: it waits in the queue and continues from {start}"


def _has_trained(records: Records, attempt: int) -> bool:
    """Return True if the attempt advanced beyond its first step."""
    progress, row = records.run.progress or {}, records.attempts[attempt]
    return progress.get("attempt") == attempt and (progress.get("step") or 0) > (row.from_step or 0)
