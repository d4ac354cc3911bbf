"""Conclude of a launch: its outcome, and how to reach the host. A rule calls it for executions that were cut short."""

from lambdas import settings
from lambdas.aws.dynamodb.ledger import no_held_row
from lambdas.aws.ec2 import instances
from lambdas.core.edges.conclude import Concluded, ConcludeInput, NotConcluded
from lambdas.core.edges.launch import LaunchConcluded
from lambdas.core.images import launch
from lambdas.settings import YardSettings
from lambdas.steps import conclusion
from lambdas.steps.conclusion import RunEnd
from lambdas.steps.entry_point import entry_point
from trainyard.core.model.instance_types import Market
from trainyard.protocol.tags import Tag
from trainyard.values import wire


@entry_point
def handler(given: ConcludeInput) -> LaunchConcluded | Concluded | NotConcluded:
    yard = settings.read(YardSettings)
    end = conclusion.end_of(yard.table_name, yard.bucket_name, given)
    if not isinstance(end, RunEnd):
        return end
    summary = launch.summarise(end)
    answer = wire.from_json(LaunchConcluded, summary)
    if answer.instance:
        # Before the execution is over: patrol would take the host for one that nobody wants.
        if answer.dev and Market(str(answer.market)).can_stop:
            instances.keep_disks([answer.instance])
        if answer.held:
            instances.tag({answer.held: [answer.instance]}, Tag.HOLD)
            instances.tag({answer.held: [answer.instance]}, Tag.CAP)
        instances.tag({wire.stamp(end.now): [answer.instance]}, Tag.READY)
    else:
        end.ledger.write(no_held_row(end.run))
    end, summary = end.agreed(summary)
    end.write()
    return wire.from_json(LaunchConcluded, summary)
