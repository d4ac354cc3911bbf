"""A request of a user on a host to hold that host, so that it outlives its run."""

from datetime import datetime
from typing import assert_never

from lambdas.aws.ec2 import instances
from lambdas.core.patrol import hold
from lambdas.core.patrol.hold import NoHold
from lambdas.steps.signals.context import SignalContext
from trainyard.core.model.errors import AccessDenied, Infrastructure
from trainyard.protocol.signals import Hold, Sent
from trainyard.protocol.tags import Tag
from trainyard.values import serialization


def hold_host(context: SignalContext, sent: Sent, signal: Hold, now: datetime) -> str:
    """Tag the host if it is live and has the run's tag. A denial does not end the run."""
    instance = sent.instance
    try:
        found = {
            host.id: host.tags for host in instances.find_by_id([instance]) if host.state in instances.LIVE
        }
        match hold.grant(instance, context.run, found.get(instance), signal.until, now):
            case hold.Hold(until=held):
                instances.tag({serialization.timestamp(held): [instance]}, Tag.HOLD)
                return f"{instance} is held until {serialization.timestamp(held)}"
            case NoHold(reason=reason):
                return f"not held: {reason}"
            case answer:
                assert_never(answer)
    except AccessDenied as denied:
        raise Infrastructure(f"{instance} cannot be held: {denied.reason}") from denied
