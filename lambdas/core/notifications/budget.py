"""The notification that a part of the monthly budget is spent."""

from lambdas.core.notifications import Notification
from trainyard.protocol.webhooks import NotificationKind
from trainyard.values.quantities import dollars


def notify_budget(percent: int, *, spent: float, limit: float, month: str, yard: str) -> Notification:
    runs = "new runs are refused, running ones continue" if percent >= 100 else "runs continue"
    return Notification(
        f"Trainyard {yard}: {percent} % of the monthly budget is spent",
        [
            f"Cost of instances in {month}: {dollars(spent)} of {dollars(limit)} (context monthly_dollars); {runs}."
        ],
        kind=NotificationKind.BUDGET,
        once_key=f"budget#{month}#{percent}",
    )
