"""The notification of a run's end, from its summary."""

from collections.abc import Iterator

from lambdas.core.notifications import Notification
from trainyard.core.model import ends
from trainyard.protocol.ledger.attempt import Ending
from trainyard.protocol.summary import Outputs, Resume, RunSummary, Steps, WarmPool
from trainyard.values.quantities import dollars, format_bytes, format_count, span

MOST_LEFT_OUT = 5
"""Files that are missing from the outputs and named in the notification."""


def notify_end(summary: RunSummary) -> Notification:
    """Return the notification. steps/end_notification.py sends it once for each run."""
    outcome = ends.outcome_in_words(summary["outcome"], summary["reason"]).lower()
    return Notification(
        f"Trainyard: {summary['run']} {outcome}",
        _lines(summary),
        kind=Notification.kind_of_end(summary["outcome"]),
        run=summary["run"],
        submitter=summary["submitter"] or "",
    )


def _lines(summary: RunSummary) -> Iterator[str]:
    cost, doubts = summary["cost"], summary["but"]
    word = ends.WORDS[summary["outcome"]].lower()
    yield f"{summary['run']} {word} after {span(summary['seconds'])}{', but:' if doubts else '.'}"
    yield from (f"  {doubt}" for doubt in doubts)
    yield f"Reason: {summary['reason']}"
    if summary["submitter"]:
        yield f"Submitted by: {summary['submitter']}."
    yield from (f"Warning: {warning}" for warning in summary["warnings"])
    for size in summary["sizes"] if len(summary["sizes"]) > 1 else ():
        yield f"From {size['at']} on {format_count(int(size['hosts']), 'host')}: {size['reason']}."
    steps = _describe_steps(summary["steps"], summary["resume"])
    yield f"Attempts: {len(summary['attempts'])}. {steps}."
    for attempt in summary["attempts"]:
        if attempt["ending"] == Ending.PREEMPTED:
            yield f"Attempt {attempt['attempt']} was {attempt['reason']}."
    on_demand, whose = dollars(cost["on_demand_dollars"]), f"; {cost['prices']}" if cost["prices"] else ""
    yield f"Cost: {dollars(cost['dollars'])} for {cost['hours']:.3f} host hours, on demand {on_demand}{whose}."
    yield from _describe_pool(summary["pool"])
    yield from _describe_outputs(summary["outputs"])
    yield from (f"{what}: {uri}" for what, uri in summary["where"].items())


def _describe_steps(steps: Steps, proof: Resume) -> str:
    done = f"Steps: {steps['done']} of {steps['planned']}"
    if not proof["resumed_at"]:
        return done
    resumed = ", ".join(str(step) for step in proof["resumed_at"])
    lost = proof["steps_lost"]
    if None in proof["resumed_at"]:
        return f"{done}, resumed from the outputs of the last attempt; steps lost: unknown"
    if lost is None:
        return f"{done}; steps lost: unknown, because the program reports no steps"
    return f"{done}, resumed at step {resumed}; steps lost: {lost}"


def _describe_pool(pool: WarmPool) -> Iterator[str]:
    if kept := pool["retained"]:
        yield (
            f"Retained in the warm pool: {', '.join(kept)}, for {pool['minutes']:g} minutes and at most "
            f"{dollars(pool['most_dollars'])}."
        )


def _describe_outputs(outputs: Outputs) -> Iterator[str]:
    if outputs["files"]:
        yield f"Outputs: {format_count(outputs['files'], 'file')}, {format_bytes(outputs['bytes'])}."
    for each in outputs["left_out"][:MOST_LEFT_OUT]:
        size = f" ({format_bytes(each['size'])})" if each["size"] else ""
        yield f"Not kept: {each['path']}{size}: {each['reason']}"
    more = len(outputs["left_out"][MOST_LEFT_OUT:]) + outputs["left_out_more"]
    if more:
        yield f"Not kept: {more} more."
