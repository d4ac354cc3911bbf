"""Await: the launched host is there once Systems Manager knows it, since then it can be reached."""

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
    """Systems Manager knows the host, so a session on it can begin."""

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
    """Raises NotRegistered until then: the workflow asks again. HostLost once EC2 says that the host is gone."""
    run, attempt = given.run, given.attempt
    ledger, now = Ledger(environment.read(YardSettings).table_name), clock()
    records = ledger.known(run)
    (host,) = records.attempts[attempt].hosts
    found = instances.of_ids([host])
    if found and found[0].gone:
        state = found[0].state_and_why
        raise HostLost(f"EC2 says {host} is {state}, before it could be reached")
    if not found or host not in ssm.online([host]):  # for seconds EC2 does not show what it launched
        raise NotRegistered(
            f"Systems Manager does not know {host} yet: it boots, or hangs, or has no way there"
        )
    reason = f"{host} in {found[0].zone} is there; {connect(host, records.run.dev)}"
    ledger.write(
        host_row(run, host, {"address": found[0].address, "ready": attempt, "ready_at": now}),
        attempt_row(run, attempt, {"gang_ready": now}, kept=frozenset({"gang_ready"})),
        run_row(run, {"state": "Await", "attempt": attempt}),
        event_row(run, note("reached", reason, at=now, attempt=attempt)),
    )
    return HostReached(reason=reason)
