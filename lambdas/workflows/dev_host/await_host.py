"""Await: wait until the launched host is registered in Systems Manager, so that users can reach it."""

from lambdas import environment
from lambdas.aws import ssm
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.aws.dynamodb.rows import attempt_row, event_row, host_row, run_row
from lambdas.aws.ec2 import instances
from lambdas.core.images.dev_host import connect
from lambdas.environment import YardSettings
from lambdas.needs import Needs, may
from lambdas.steps.entry_point import entry_point
from lambdas.steps.inputs import Answer, AttemptInput
from lambdas.steps.observability import clock, note
from trainyard.core.model.errors import HostLost, NotRegistered


class HostReached(Answer):
    """The host is registered in Systems Manager; sessions can begin."""

    kind = "launched"


NEEDS = Needs(
    YardSettings,
    (
        may("call", "ec2:DescribeInstances", "ssm:DescribeInstanceInformation"),
        may("use the ledger", "Query", "PutItem", "UpdateItem"),
    ),
)


@entry_point
def handler(given: AttemptInput) -> HostReached:
    """Check the host. Raises NotRegistered until Systems Manager lists it; the workflow then retries. Raises HostLost
    once EC2 reports it as gone."""
    run, attempt = given.run, given.attempt
    ledger, now = Ledger(environment.read(YardSettings).table_name), clock()
    records = ledger.require(run)
    (host,) = records.attempts[attempt].hosts
    found = instances.find_by_id([host])
    if found and found[0].gone:
        state = found[0].state_and_why
        raise HostLost(f"EC2 reports {host} is {state}, before it could be reached")
    if not found or host not in ssm.find_online([host]):  # EC2 shows a new host some seconds late
        raise NotRegistered(
            f"{host} is not registered in Systems Manager yet: it boots, hangs, or has no route to it"
        )
    reason = f"{host} in {found[0].zone} is ready; {connect(host, records.run.dev)}"
    ledger.write(
        host_row(run, host, {"address": found[0].address, "ready": attempt, "ready_at": now}),
        attempt_row(run, attempt, {"gang_ready": now}, write_once=frozenset({"gang_ready"})),
        run_row(run, {"state": "Await", "attempt": attempt}),
        event_row(run, note("reached", reason, at=now, attempt=attempt)),
    )
    return HostReached(reason=reason)
