"""Train: say who is who, start the gang with one command, and wait. What its hosts say is the heartbeat."""

from datetime import datetime
from typing import Any

from lambdas import settings
from lambdas.aws import s3, ssm
from lambdas.aws.ledger import Ledger, attempt_row, event_row, look_up_row, run_row
from lambdas.core.edges.common import Nothing, WaitInput
from lambdas.core.model import gang
from lambdas.core.run import deadlines
from lambdas.core.run.records import Owner, Records
from lambdas.core.values import wire
from lambdas.settings import TrainSettings
from lambdas.steps import attempts
from lambdas.steps.entry_point import entry_point
from lambdas.steps.observability import clock, note


@entry_point
def handler(given: WaitInput) -> Nothing:
    yard, run, attempt = settings.read(TrainSettings), given.run, given.attempt
    ledger, now = Ledger(yard.table_name), clock()
    records = attempts.await_news(ledger, run, attempt, "train", given.token, now, state="Train")
    if attempts.settle(ledger, records, attempt, now):
        return Nothing()
    cluster = _cluster(records, attempt, yard.bucket_name, now)
    deadline = wire.instant(cluster["deadline"])
    hosts = [assignment["instance"] for assignment in cluster["hosts"]]
    resumed = cluster["checkpoint"]["step"] if cluster["checkpoint"] else 0
    commands = ssm.send(
        yard.start_document, hosts, {"Run": run, "Attempt": str(attempt)}, comment=f"{run} attempt {attempt}"
    )
    where = (
        f"from the checkpoint of step {resumed}"
        if resumed
        else f"from the beginning{_missed(ledger, run, attempt)}"
    )
    reason = f"{'one host starts' if len(hosts) == 1 else f'{len(hosts)} hosts start'} {where}"
    entry = note("starting", reason, at=now, attempt=attempt, hosts=hosts, from_step=resumed)
    owner = Owner(run=run, attempt=attempt, wait="train")
    ledger.write(
        attempt_row(run, attempt, {"from_step": resumed}),
        run_row(run, {"deadline": deadline}),
        event_row(run, entry),
        *(look_up_row("command", command, owner, now) for command in commands),
    )
    return Nothing()


def _missed(ledger: Ledger, run: str, attempt: int) -> str:
    """That an earlier attempt has left a checkpoint which nobody finds; a first attempt has none to miss."""
    earlier = ledger.timeline(run) if attempt > 1 else ()
    steps = [
        entry.detail["step"]
        for entry in earlier
        if entry.event == "checkpointed" and entry.detail.get("step")
    ]
    if not steps:
        return ""
    key = f"runs/{run}/checkpoints/latest.json"
    return f": the checkpoint of step {max(steps)} is not in the bucket any more ({key}), so its steps are done again"


def _cluster(records: Records, attempt: int, yard_bucket: str, now: datetime) -> dict[str, Any]:
    """cluster.json, written once: a repeated call starts the hosts on what the first one wrote."""
    run, job = records.run.run, records.run.job
    assert job is not None, "an admitted run has a job"
    latest = s3.get_json(yard_bucket, f"runs/{run}/checkpoints/latest.json")
    document = gang.cluster_document(
        job,
        run=run,
        attempt=attempt,
        assignments=gang.assignments(job, records.members(attempt)),
        checkpoint=gang.checkpoint_of(latest),
        deadline=deadlines.deadline(records, attempt, now),
    )
    key = f"runs/{run}/attempts/{attempt}/cluster.json"
    if s3.put_json_once(yard_bucket, key, document):
        return document
    written = s3.get_json(yard_bucket, key)
    assert written is not None, "whoever took the key wrote the whole object"
    return written
