"""The end of a run, whatever its kind: what it means, what the ledger keeps of it, what lies in the bucket."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from lambdas.aws import s3
from lambdas.aws.ledger import Ledger, event_row, run_row
from lambdas.core.model import timeline, wire
from lambdas.core.model.timeline import Entry
from lambdas.core.run import outcome
from lambdas.core.run.outcome import Conclusion
from lambdas.core.run.records import Records
from lambdas.steps.observability import note


def spoiled(said: Conclusion, event: Mapping[str, Any], records: Records | None) -> Conclusion:
    """The same, spoiled by a Release or an Undo of which the event says that it failed."""
    run = str(event["run"])
    if event.get("unreleased"):
        hosts = [host.instance for host in records.hosts.values() if host.ended is None] if records else []
        said = outcome.spoiled(said, outcome.unreleased(run, hosts, event["unreleased"]))
    if event.get("undone"):
        said = outcome.spoiled(said, outcome.not_undone(run, event["undone"]))
    return said


def end(ledger: Ledger, run: str, said: Conclusion, now: datetime) -> None:
    """The run's row and the timeline's last entry."""
    values = {
        "state": "Conclude",
        "outcome": said.outcome,
        "error": said.error,
        "reason": said.reason,
        "ended": now,
    }
    ledger.write(run_row(run, values), event_row(run, last_entry(said, now)))


def last_entry(said: Conclusion, now: datetime) -> Entry:
    return note(said.outcome.value, said.reason, at=now)


def write(
    yard_bucket: str,
    ledger: Ledger,
    run: str,
    records: Records | None,
    summary: Mapping[str, Any],
    last: Entry,
) -> None:
    """summary.json, timeline.jsonl, and plan.json with every pool that was asked. `last` is the timeline's last entry,
    whether the ledger has it already or not."""
    s3.put_json(yard_bucket, f"runs/{run}/summary.json", summary)
    lines = timeline.to_jsonl([*(ledger.timeline(run) if records else ()), last])
    s3.put(yard_bucket, f"runs/{run}/timeline.jsonl", lines.encode(), media_type="application/x-ndjson")
    if records and records.plan:
        plan = wire.to_json(records.plan) | {"asked": records.asked()}
        s3.put_json(yard_bucket, f"runs/{run}/plan.json", plan)
