"""The notification that a part of the month's budget is spent."""

from lambdas.core.notifications import Notification
from trainyard.values.quantities import dollars


def reached(percent: int, *, spent: float, limit: float, month: str, yard: str) -> Notification:
    runs = "new runs are refused, those that go on are not touched" if percent >= 100 else "runs go on"
    return Notification(
        f"Trainyard {yard}: {percent} % of the month's budget is spent",
        [
            f"Instance hours of {month}: {dollars(spent)} of {dollars(limit)} (context monthly_dollars); {runs}."
        ],
        once_key=f"budget#{month}#{percent}",
    )
