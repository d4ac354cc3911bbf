"""Conclude of a launch: its outcome, and how to reach the host. A rule calls it for executions that were cut short."""

from typing import Any

from lambdas import settings
from lambdas.aws import ending
from lambdas.aws.ledger import Ledger, event_row, run_row
from lambdas.core import conclusion, relaunch, wire
from lambdas.handlers import closing
from lambdas.handlers.voice import clock, note
from lambdas.settings import YardSettings

ANSWERED = ("kind", "image", "instance", "address", "zone", "type", "market", "price", "until", "connect")


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    yard = settings.read(YardSettings)
    ledger, run, now = Ledger(yard.table_name), str(event["run"]), clock()
    records = ledger.read(run)
    if event.get("cut_short") and records and records.run.ended:
        return {"kind": "concluded", "reason": f"{run} had concluded by itself"}
    concluded = conclusion.read(event["outcome"])
    if records and not records.are_of(event["execution"]):
        return {**wire.to_json(concluded), "kind": concluded.outcome.value}
    if event.get("unreleased"):
        hosts = [host.instance for host in records.hosts.values() if host.ended is None] if records else []
        concluded = conclusion.spoiled(concluded, conclusion.unreleased(run, hosts, event["unreleased"]))
    said = relaunch.summarise(run, records, concluded, bucket=yard.bucket_name, now=now)
    entry = note(concluded.outcome.value, concluded.reason, at=now)
    if records:
        values = {"state": "Conclude", "outcome": concluded.outcome, "reason": concluded.reason, "ended": now}
        ledger.write(run_row(run, values | {"error": concluded.error}), event_row(run, entry))
    if concluded.error is None:
        # Before the execution is over: patrol would take the host for one that nobody wants.
        ending.tag({str(said["until"]): [str(said["instance"])]}, "trainyard:hold")
    closing.write(yard.bucket_name, ledger, run, records, said, entry)
    return {**wire.to_json(concluded), **{key: said[key] for key in ANSWERED if key in said}}
