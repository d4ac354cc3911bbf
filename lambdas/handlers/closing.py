"""What a run leaves in the bucket when it is over, whatever its kind."""

from collections.abc import Mapping
from typing import Any

from lambdas.aws import bucket
from lambdas.aws.ledger import Ledger
from lambdas.core import timeline, wire
from lambdas.core.records import Records
from lambdas.core.timeline import Entry


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
    bucket.write_json(yard_bucket, f"runs/{run}/summary.json", summary)
    lines = timeline.to_jsonl([*(ledger.timeline(run) if records else ()), last])
    bucket.write(yard_bucket, f"runs/{run}/timeline.jsonl", lines.encode(), media_type="application/x-ndjson")
    if records and records.plan:
        plan = wire.to_json(records.plan) | {"asked": records.asked()}
        bucket.write_json(yard_bucket, f"runs/{run}/plan.json", plan)
