"""Conclude of a launch: its outcome, and how to reach the host. A rule calls it for executions that were cut short."""

from typing import Any

from lambdas import settings
from lambdas.aws import instances
from lambdas.aws.ledger import Ledger
from lambdas.core.images import launch
from lambdas.core.model import wire
from lambdas.core.patrol import hold
from lambdas.core.run import outcome
from lambdas.settings import YardSettings
from lambdas.steps import admission, conclusion
from lambdas.steps.observability import clock

ANSWERED = ("kind", "image", "instance", "address", "zone", "type", "market", "price", "until", "connect")


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    yard = settings.read(YardSettings)
    ledger, run, now = Ledger(yard.table_name), str(event["run"]), clock()
    records = ledger.read(run)
    if event.get("cut_short") and records and records.run.ended:
        return {"kind": "concluded", "reason": f"{run} had concluded by itself"}
    concluded = conclusion.spoiled(outcome.read(event["outcome"]), event, records)
    if records and not admission.is_its_own(records.run, event):
        return {**wire.to_json(concluded), "kind": concluded.outcome.value}
    said = launch.summarise(run, records, concluded, bucket=yard.bucket_name, now=now)
    if records:
        conclusion.end(ledger, run, concluded, now)
    if concluded.error is None:
        # Before the execution is over: patrol would take the host for one that nobody wants.
        instances.tag({str(said["until"]): [str(said["instance"])]}, hold.TAG)
    conclusion.write(yard.bucket_name, ledger, run, records, said, conclusion.last_entry(concluded, now))
    return {**wire.to_json(concluded), **{key: said[key] for key in ANSWERED if key in said}}
