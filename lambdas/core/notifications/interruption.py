"""The notification of a run that lost a host and continues."""

from lambdas.core.notifications import Notification
from trainyard.protocol.ledger.attempt import AttemptRow
from trainyard.protocol.ledger.run import RunRow
from trainyard.protocol.webhooks import NotificationKind


def notify_interruption(run: RunRow, ended: AttemptRow, *, yard: str) -> Notification:
    """Return the notification about the attempt that ended early."""
    following = ended.attempt + 1
    lines = [
        f"{run.run} continues with attempt {following}, once it has hosts.",
        f"Reason: {ended.reason or ended.ending}",
    ]
    if ended.checkpointed is not None:
        lines.append(f"Last whole checkpoint: step {ended.checkpointed}.")
    if run.submitter:
        lines.append(f"Submitted by: {run.submitter}.")
    return Notification(
        f"Trainyard {yard}: {run.run} was interrupted",
        lines,
        kind=NotificationKind.INTERRUPTION,
        once_key=f"interruption#{run.run}#{ended.attempt}",
        run=run.run,
        submitter=run.submitter or "",
        notify=tuple((run.job or {}).get("notify") or ()),
    )
