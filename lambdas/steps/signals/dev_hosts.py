"""Requests of users for dev hosts: bring one up, or make an image of one. The request claims the name of the dev host
and starts an execution. A refused request starts one, too, so that the waiting user finds the reason."""

from datetime import datetime

from lambdas.aws import states
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.aws.dynamodb.rows import dev_imaging_row
from lambdas.aws.ec2 import images, instances
from lambdas.aws.ec2.instances import Instance
from lambdas.core.images import dev as names
from lambdas.core.images.dev import NameUse, Refuse, Take
from lambdas.steps.signals.context import SignalSettings
from trainyard.command_line import command_line
from trainyard.core.model import dev
from trainyard.core.model.errors import ServiceUnavailable
from trainyard.protocol.ledger.yard import DevRow
from trainyard.protocol.requests import DevHost
from trainyard.values.lazy import dataclass


@dataclass(frozen=True)
class UserRequest:
    """The request of a user, as authenticated by IAM, with the instances of that name."""

    yard: SignalSettings
    ledger: Ledger
    asked: DevHost
    by: str
    hosts: tuple[Instance, ...]
    now: datetime


def handle(yard: SignalSettings, ledger: Ledger, asked: DevHost, by: str, now: datetime) -> str:
    """Handle the request; return the result for the log."""
    if not names.is_named(asked.name, asked.run):
        return f"invalid name or run of a dev host: {asked.name!r:.50}, {asked.run!r:.90}"
    if ledger.run(asked.run):
        return "this request was handled before"
    request = UserRequest(yard, ledger, asked, by, instances.find_dev_hosts(yard.yard, asked.name), now)
    match asked.want:
        case dev.UP:
            return _bring_up(request)
        case dev.IMAGE:
            return _image(request)
        case _:
            return f"unknown request: {asked.want!r:.50}"


def _bring_up(request: UserRequest) -> str:
    asked, by, machine = request.asked, request.by, request.yard.dev_host_state_machine_arn
    row, wanted = request.ledger.dev(asked.name), names.as_text(asked.request)
    again = command_line("dev", "up", asked.name)
    if wanted is None:
        return "the request is too long"
    match names.take(asked.name, asked.run, by, _use(request, row), request.now):
        case Refuse(reason=reason):
            states.start(machine, asked.run, {"refused": reason}, by_hand=again)
            return reason
        case Take():
            mine = DevRow(name=asked.name, owner=by, run=asked.run, request=wanted, at=request.now)
            if not request.ledger.take_dev_name(mine, row):
                raise ServiceUnavailable(
                    f"another request claimed the dev host {asked.name} in the meantime; this one is retried"
                )
            states.start(machine, asked.run, {"dev": asked.name}, by_hand=again)
            return f"{asked.run} brings up {asked.name}"


def _use(request: UserRequest, row: DevRow | None) -> NameUse:
    before = request.ledger.run(row.run) if row else None
    is_mine = row is not None and row.owner == request.by
    kept = () if is_mine else images.find_dev_images(request.yard.yard, request.asked.name)
    return NameUse(
        row=row,
        goes_on=before.ended is None if before else None,
        hosts=tuple(f"{host.id} ({host.state})" for host in request.hosts),
        owners=frozenset(owner for image in kept if (owner := dev.owner(image.tags))),
    )


def _image(request: UserRequest) -> str:
    """Start a snapshot of the newest host of that name. The host ends after it."""
    asked, by, machine = request.asked, request.by, request.yard.snapshot_state_machine_arn
    again = command_line("dev", "down", asked.name, "--keep", "image")
    mine = [host for host in request.hosts if dev.is_of(host.tags, asked.name, by)]
    if not mine:
        reason = f"you have no dev host {asked.name} to make an image of"
        states.start(machine, asked.run, {"refused": reason}, by_hand=again)
        return f"{by}: {reason}"
    host = max(mine, key=lambda each: each.launched)
    request.ledger.write(dev_imaging_row(asked.run, host.id, request.now))
    quiesce = "stop" if host.market.can_stop else "pause"
    given = {"instance": host.id, "quiesce": quiesce, "then": "terminate"}
    states.start(machine, asked.run, given, by_hand=again)
    return f"{asked.run} makes an image of {host.id}"
