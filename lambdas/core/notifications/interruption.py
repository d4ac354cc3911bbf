"""The notification of a run that lost a host and continues."""

from lambdas.core.notifications import Notification
from trainyard.protocol.ledger.attempt import AttemptRow, Ending
from trainyard.protocol.ledger.run import RunRow
from trainyard.protocol.webhooks import NotificationKind


def notify_interruption(run: RunRow, ended: AttemptRow, *, yard: str) -> Notification:
    """Return the notification about the attempt that ended early."""
    following, is_preempted = ended.attempt + 1, ended.ending is Ending.PREEMPTED
    lacks = "a slot and hosts" if is_preempted else "hosts"
    happened = "has left its slot to a run of a higher priority" if is_preempted else "was interrupted"
    lines = [
        f"{run.run} continues with attempt {following}, once it has {lacks}.",
        f"Reason: {ended.reason or ended.ending}",
    ]
    if ended.checkpointed is not None:
        lines.append(f"Last whole checkpoint: step {ended.checkpointed}.")
    if run.submitter:
        lines.append(f"Submitted by: {run.submitter}.")
    return Notification(
        f"Trainyard {yard}: {run.run} {happened}",
        lines,
        kind=NotificationKind.INTERRUPTION,
        once_key=f"interruption#{run.run}#{ended.attempt}",
        run=run.run,
        submitter=run.submitter or "",
        notify=tuple((run.job or {}).get("notify") or ()),
    )
