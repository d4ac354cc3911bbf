"""Conclude of dev-host: the outcome, and how to reach the host. A rule calls it for executions that were cut short."""

from lambdas import environment
from lambdas.aws.dynamodb.rows import no_held_row
from lambdas.aws.ec2 import instances
from lambdas.core.images import dev_host
from lambdas.environment import YardSettings
from lambdas.needs import Needs, may
from lambdas.steps import conclusion
from lambdas.steps.conclusion import Concluded, NotConcluded, RunEnd
from lambdas.steps.entry_point import entry_point
from lambdas.steps.inputs import ConcludeInput
from trainyard.protocol import keys
from trainyard.protocol.plan import Market
from trainyard.protocol.tags import Tag
from trainyard.values import serialization
from trainyard.values.lazy import dataclass


@dataclass(frozen=True, kw_only=True)
class DevHostConcluded(Concluded):
    """The host with its price and latest end. Without a host, every field is None."""

    image: str | None = None
    instance: str | None = None
    address: str | None = None
    zone: str | None = None
    type: str | None = None
    market: str | None = None
    price: float | None = None
    until: str | None = None
    held: str | None = None
    """The end of the hold that the user asked for."""
    connect: str | None = None
    dev: str | None = None
    """The name of the dev host."""


NEEDS = Needs(
    YardSettings,
    (
        may("write objects", keys.RUNS),
        may("read and list objects", keys.summary(keys.ANY)),
        may("mark hosts", Tag.HOLD, Tag.CAP, Tag.READY),
        may("keep disks"),
        may("use the ledger", "Query", "PutItem", "UpdateItem", "DeleteItem"),
    ),
)


@entry_point
def handler(given: ConcludeInput) -> DevHostConcluded | Concluded | NotConcluded:
    yard = environment.read(YardSettings)
    end = conclusion.end_of(yard.table_name, yard.bucket_name, given)
    if not isinstance(end, RunEnd):
        return end
    summary = dev_host.summarise(end)
    answer = serialization.from_json(DevHostConcluded, summary)
    if answer.instance:
        # Tag the host before the execution ends; otherwise patrol would take it for an orphan.
        if answer.dev and Market(str(answer.market)).can_stop:
            instances.keep_disks([answer.instance])
        if answer.held:
            instances.tag({answer.held: [answer.instance]}, Tag.HOLD)
            instances.tag({answer.held: [answer.instance]}, Tag.CAP)
        instances.tag({serialization.timestamp(end.now): [answer.instance]}, Tag.READY)
    else:
        end.ledger.write(no_held_row(end.run))
    end, summary = end.write_summary(summary)
    end.write()
    return serialization.from_json(DevHostConcluded, summary)
