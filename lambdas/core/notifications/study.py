"""The notification of a study's end, from its summary."""

from lambdas.core.notifications import Notification
from trainyard.core.model import ends
from trainyard.protocol.summary import StudySummary
from trainyard.values.quantities import dollars, format_count, span


def notify_end(summary: StudySummary) -> Notification:
    """Return the notification of the end of a study."""
    word = ends.WORDS[summary["outcome"]].lower()
    lines = [
        f"The study {summary['run']} {word} after {span(summary['seconds'])}.",
        f"Reason: {summary['reason']}",
        f"Trials: {format_count(summary['trials'], 'trial')} for {dollars(summary['dollars'])}.",
    ]
    if summary["best"]:
        lines.append(f"Best trial: {summary['best']} with {summary['metric']} {summary['value']:.6g}.")
    if summary["submitter"]:
        lines.append(f"Submitted by: {summary['submitter']}.")
    return Notification(
        f"Trainyard: {summary['run']} {word}",
        lines,
        kind=Notification.kind_of_end(summary["outcome"]),
        run=summary["run"],
        submitter=summary["submitter"] or "",
    )
