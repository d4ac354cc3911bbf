"""Train: assign the roles, order the gang to start, and wait. Signals of its hosts are the heartbeat."""

from datetime import datetime

from lambdas import environment
from lambdas.aws import s3
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.aws.dynamodb.rows import attempt_row, event_row, run_row
from lambdas.core.run import deadlines
from lambdas.core.run.records import Records
from lambdas.core.run.recovery import Trouble
from lambdas.environment import YardSettings
from lambdas.needs import Needs, may
from lambdas.steps import attempts, orders
from lambdas.steps.entry_point import entry_point
from lambdas.steps.inputs import Nothing, WaitInput
from lambdas.steps.observability import clock, note
from trainyard.core.model import gang
from trainyard.protocol import cluster as cluster_file
from trainyard.protocol import keys
from trainyard.protocol.cluster import Cluster
from trainyard.protocol.orders import Order, OrderKind
from trainyard.values import serialization


class TrainSettings(YardSettings):
    start_document: str


NEEDS = Needs(
    TrainSettings,
    (
        may("read and list objects", keys.RUNS),
        may("write objects", keys.RUNS),
        may("run documents", "start"),
        may("call", "ssm:DescribeInstanceInformation"),
        may("answer tasks", "Success", "Failure"),
        may("use the ledger", "Query", "PutItem", "UpdateItem"),
    ),
)


@entry_point
def handler(given: WaitInput) -> Nothing:
    yard, run, attempt = environment.read(TrainSettings), given.run, given.attempt
    ledger, now = Ledger(yard.table_name), clock()
    records = attempts.begin_wait(ledger, run, attempt, "train", given.task_token, now, state="Train")
    if attempts.settle(ledger, records, attempt, now) or records.attempts[attempt].started:
        return Nothing()  # the attempt has ended, or it continues after a long time without an event
    cluster = _write_cluster(records, attempt, yard.bucket_name, now)
    hosts = [assignment.instance for assignment in cluster.assignments]
    checkpoint = cluster.checkpoint
    resumed = (checkpoint.at_step or checkpoint.step) if checkpoint else 0
    order = Order(OrderKind.START, run, attempt, tuple(hosts))
    out_of_reach = orders.give(order, bucket=yard.bucket_name, document=yard.start_document)
    if out_of_reach is None:
        _end_unstarted(ledger, run, attempt, now)
        return Nothing()
    where = (
        f"from {checkpoint.described}"
        if checkpoint
        else f"without a checkpoint{_missing_checkpoint(ledger, run, attempt) or _restored_outputs(records, attempt)}"
    )
    reason = f"{'one host starts' if len(hosts) == 1 else f'{len(hosts)} hosts start'} {where}"
    if out_of_reach:
        reason += f"; ordered only through the bucket, without Systems Manager: {', '.join(out_of_reach)}"
    entry = note("starting", reason, at=now, attempt=attempt, hosts=hosts, from_step=resumed)
    ledger.write(
        attempt_row(run, attempt, {"from_step": resumed}),
        run_row(run, {"deadline": cluster.deadline}),
        event_row(run, entry),
    )
    return Nothing()


def _end_unstarted(ledger: Ledger, run: str, attempt: int, now: datetime) -> None:
    """End an attempt whose gang was asked to leave before it was started, because hosts are ending. No program runs
    that could report its end. A request for another reason ends the attempt itself."""
    records = ledger.require(run)
    going = {host.instance: host.ending_reason for host in records.members(attempt) if host.ending_reason}
    if not going or records.attempts[attempt].started:
        return
    each = "; ".join(f"{host}: {why}" for host, why in going.items())
    reason = (
        f"the gang was asked to leave before it was started, because hosts were interrupted or lost ({each})"
    )
    trouble = Trouble(error="Interrupted", reason=reason, lost=tuple(going))
    entry = note("interrupted", reason, at=now, attempt=attempt, lost=list(going))
    attempts.end(ledger, run, attempt, entry, now, trouble=trouble, step=None)


def _restored_outputs(records: Records, attempt: int) -> str:
    """Return the note that a later attempt without a checkpoint restores outputs."""
    job = records.job
    restores = attempt > 1 and job is not None and job.outputs.are_restored()
    return ", with the outputs that the previous attempt kept" if restores else ""


def _missing_checkpoint(ledger: Ledger, run: str, attempt: int) -> str:
    """Return the note that a checkpoint of an earlier attempt is missing; empty in a first attempt."""
    earlier = ledger.timeline(run) if attempt > 1 else ()
    saved = [entry.detail for entry in earlier if entry.event == "checkpointed"]
    if not saved:
        return ""
    steps = [detail["step"] for detail in saved if detail.get("step")]
    key, which = keys.latest_checkpoint(run), f" of step {max(steps)}" if steps else ""
    return f": the checkpoint{which} is missing in the bucket ({key}), so its steps are repeated"


def _write_cluster(records: Records, attempt: int, yard_bucket: str, now: datetime) -> Cluster:
    """Write cluster.json once; a repeated call returns the first one."""
    run, job = records.run.run, records.job
    assert job is not None, "an admitted run has a job"
    latest = s3.get_json(yard_bucket, keys.latest_checkpoint(run))
    members = records.members(attempt)
    cluster = Cluster(
        run=run,
        attempt=attempt,
        strategy=job.cluster.strategy,
        assignments=gang.assignments(job, members),
        checkpoint=cluster_file.checkpoint_of(latest),
        deadline=deadlines.deadline(records, attempt, now),
    )
    key = keys.cluster(run, attempt)
    if s3.put_json_once(yard_bucket, key, serialization.to_json(cluster)):
        return cluster
    return serialization.read(Cluster, s3.get_json(yard_bucket, key))
