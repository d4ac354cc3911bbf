"""Why a gang has left its attempt, and what Recover is told about it."""

from collections.abc import Collection
from datetime import datetime

from lambdas.core.run.records import Records
from lambdas.core.run.recovery import Trouble
from trainyard.protocol import keys
from trainyard.protocol.signals import StopReason
from trainyard.protocol.times import PROGRAM_SILENT
from trainyard.values.quantities import counted, rounded

FOR_ANOTHER = (StopReason.PEER, StopReason.KILLED, StopReason.HANGS)
"""Why a chief leaves without a checkpoint of the whole gang. Others may still be in the attempt."""


def gang_has_stopped(records: Records, attempt: int) -> bool:
    """Whether the attempt's last checkpoint is made: every member that lives has left, or the chief has, and not
    because a peer vanished, its program was killed or it hung (then a member that says nothing may be that peer, or has
    yet to see it: it speaks, its own event comes, or silent_hosts.py finds it).

    A member that is ready for a later attempt has left this one, be it that it had nothing to say."""
    members, chief = records.members(attempt), records.chief(attempt)
    stopped = [host for host in members if host.stopped >= attempt]
    silent = [host for host in members if host.lives and host not in stopped and host.ready <= attempt]
    chief_left = chief is not None and chief in stopped and chief.why not in FOR_ANOTHER
    return bool(stopped) and (not silent or chief_left)


def others_must_be_asked(records: Records, attempt: int, instance: str) -> bool:
    """Whether the end of this host's program ends the others' only if they are told: parameter servers and their
    workers serve until then, and their chief trains on without the host. With all-reduce they notice by themselves,
    unless they hang too; but an evaluator sees nobody go, and nobody sees it go."""
    job, host = records.job, records.hosts[instance]
    if host.stopped < attempt or host.why == StopReason.ASKED:
        return False
    is_noticed = job is None or not (job.cluster.strategy.is_asynchronous or job.cluster.evaluator)
    return host.why == StopReason.HANGS or not is_noticed


def at_its_limit(records: Records, attempt: int) -> bool:
    """Whether the gang leaves because the hours or dollars are used up: patrol asked it to, or a host found out."""
    row = records.attempts.get(attempt)
    asked = row is not None and row.capped is not None
    return asked or any(
        host.stopped >= attempt and host.why == StopReason.LIMIT for host in records.members(attempt)
    )


KILLED_ON = "the program was killed on"


def interruption(records: Records, attempt: int, step: int | None) -> Trouble:
    """What to tell Recover when a gang has left: the hosts that go, or that none does, and the step reached.

    Hosts that have trained together in this attempt can do so again; those that have not may be what is wrong. Where a
    program hangs they are suspected only when the one before hung, too: all of them have answered. A program that hangs
    twice in a row in a run that has come to no step and no checkpoint would hang again, and is given up."""
    members = records.members(attempt)
    going = tuple(
        host.instance for host in members if host.why == StopReason.INTERRUPTED or host.warned or host.lost
    )
    error, well, final = "Interrupted", not going and _trained(records, attempt), False
    row = records.attempts[attempt]
    killed = _left(records, attempt, StopReason.KILLED)
    if _left(records, attempt, StopReason.HANGS):
        error, well = (
            "ProgramHangs",
            not going and (_trained(records, attempt) or not _hung(records, attempt - 1)),
        )
        final = _hung(records, attempt - 1) and not _has_come_anywhere(records)
        reason = _hangs(records, attempt, going)
        if final:
            reason = f"{reason}. It hung twice in a row, before its first step and its first checkpoint"
    elif going:
        what = _saved_before_it_left(records, attempt)
        reason = f"the gang has left because hosts are going away: {', '.join(going)}; {what}"
    elif row.growing and not killed:
        error, well = "Resized", True
        sizes = f"to go on with {counted(len(records.taken(attempt + 1)), 'host')} in place of {len(members)}"
        reason = f"the gang has saved and left, {sizes}; {_saved_before_it_left(records, attempt)}"
    elif killed:
        others = ", and the others left to be started again" if len(members) > 1 else ", to be started again"
        reason = f"{KILLED_ON} {killed}{others}; all hosts are there"
        final = _killed_at_the_same_place(records, attempt)
        if final:
            reason = f"{reason}. It was killed twice in a row without a step or a checkpoint more in between"
    else:
        reason = "the programs left to be started again; all hosts are there"
    return Trouble(error=error, reason=reason, lost=going, step=step, all_well=well, final=final)


def _left(records: Records, attempt: int, why: StopReason) -> str:
    """The members that have left the attempt for that reason, by name."""
    members = records.members(attempt)
    return ", ".join(host.instance for host in members if host.stopped >= attempt and host.why == why)


def _hangs(records: Records, attempt: int, going: Collection[str]) -> str:
    """Of the chief's log alone: whose program it is that the others wait for, nobody knows."""
    minutes = PROGRAM_SILENT.total_seconds() / 60
    log = f"{keys.logs(records.run.run, attempt)}chief-0/"
    hosts = f"{', '.join(going)} went meanwhile" if going else "all hosts are there"
    return (
        f"for {minutes:g} minutes the program has shown no work (no progress, no new line or file, no real share of a "
        f"processor or GPU on any host), so it was ended: it hangs; {hosts}; its log {log} shows how far it came"
    )


def _hung(records: Records, attempt: int) -> bool:
    row = records.attempts.get(attempt)
    return row is not None and row.error == "ProgramHangs"


def _killed_at_the_same_place(records: Records, attempt: int) -> bool:
    """Return True if the attempt before was killed, too, and this one came no further: the program does it itself."""
    row, before = records.attempts[attempt], records.attempts.get(attempt - 1)
    if before is None or not (before.reason or "").startswith(KILLED_ON):
        return False
    reached, reached_before = row.reached, before.reached
    if reached is None and reached_before is None:
        return row.saved is None or before.saved is not None
    return (reached or 0) <= (reached_before or 0)


def _has_come_anywhere(records: Records) -> bool:
    """Whether any attempt has told of a step or a checkpoint, or began from one."""
    return any(row.reached or row.from_step or row.saved for row in records.attempts.values())


def _saved_before_it_left(records: Records, attempt: int) -> str:
    left = [
        host.stopped_at for host in records.members(attempt) if host.stopped >= attempt and host.stopped_at
    ]
    return last_save(records, max(left, default=None))


def last_save(records: Records, until: datetime | None) -> str:
    """How much of the work is in the bucket, in words: how old the run's last checkpoint was at that time (None: nobody
    knows when), and its step where the program tells steps."""
    saves = [(row.saved, row.checkpointed) for row in records.attempts.values() if row.saved]
    if not saves:
        return "no checkpoint has been saved"
    at, step = max(saves, key=lambda save: save[0])
    age = max(0.0, (until - at).total_seconds()) if until else None
    old = "is in the bucket" if age is None else f"was {rounded(age)} old"
    return f"its last save{'' if step is None else f', of step {step:,},'} {old}"


def _trained(records: Records, attempt: int) -> bool:
    """Whether the attempt has come further than where it began."""
    progress, row = records.run.progress or {}, records.attempts[attempt]
    return progress.get("attempt") == attempt and (progress.get("step") or 0) > (row.from_step or 0)
