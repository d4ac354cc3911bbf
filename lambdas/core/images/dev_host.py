"""Decisions of the workflow dev-host: read its input, choose image and host, and launch again after a failure."""

import json
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Literal, assert_never, get_args

from lambdas.core.capacity.retained_hosts import RetainedHosts
from lambdas.core.images import dev
from lambdas.core.images.snapshot import INSTANCE
from lambdas.core.run.conclusion import summary
from lambdas.core.run.conclusion.summary import EndedRun
from lambdas.core.run.records import Records
from lambdas.core.run.recovery import EndRun, Retry, Trouble
from trainyard.command_line import command_line
from trainyard.core.model import dev as dev_tags
from trainyard.core.model.hardware import Hardware
from trainyard.core.model.images.image import AMI, Image, newest
from trainyard.core.model.instance_types import MarketChoice, catalog
from trainyard.core.model.job import Job, one_host_job
from trainyard.core.model.job_fields import ANY_TYPES, DISK_GIB, NAME, RUN_ID, ZONES
from trainyard.protocol.ledger.yard import DevRow
from trainyard.protocol.summary import HostAccess, LaunchSummary
from trainyard.values import serialization
from trainyard.values.fields import Choice, Number, Text, key
from trainyard.values.lazy import dataclass
from trainyard.values.mappings import Record
from trainyard.values.validation import Fault, InputFaults, show_value

NamedBy = Literal["image", "run", "latest"]
SOURCES: tuple[NamedBy, ...] = get_args(NamedBy)
WHAT, SO = "The dev host that was asked for", "; nothing was launched"
MOST_HOSTS = 3
HOST_SECONDS = 10


@dataclass(frozen=True, kw_only=True)
class DevHostRequest:
    """The input of the workflow: one of `image`, `run` and `latest`. Without types the host gets the image's."""

    image: str | None = key(
        None, Text(AMI, "an image's id (ami- and 8 to 17 hex digits)"), "An image of the yard."
    )
    run: str | None = key(
        None, Text(RUN_ID, "a run's id"), "The newest image that was made by it or of its host."
    )
    latest: str | None = key(
        None,
        Text(
            rf"{NAME}|{INSTANCE}",
            "the name of a family of images (a job's name, an instance's id or a name that a snapshot was given)",
        ),
        "The newest image of the family.",
    )
    instance_types: tuple[str, ...] = key(
        (),
        ANY_TYPES,
        "The order counts at equal price. Types without a GPU count only if no type with one is available.",
        usual="the image's",
    )
    market: MarketChoice = key(MarketChoice.SPOT_THEN_ON_DEMAND, Choice(MarketChoice), "As in a job.")
    zones: tuple[str, ...] = key(
        (),
        ZONES,
        "The zones to launch in.",
        usual="all of the yard's",
    )
    max_dollars_per_hour: float | None = key(
        None, Number(most=10_000, unit="dollars"), "Capacity pools above it are excluded.", usual="no cap"
    )
    disk_gib: int | None = key(
        None,
        DISK_GIB,
        "The root disk in GiB, at least as large as the image's. Its size costs money, also while the host is stopped.",
        usual="as large as the image's",
    )
    hours: float = key(
        12.0,
        Number(most=720, unit="hours"),
        "The longest time that the host may run; patrol stops it earlier if it is idle.",
    )
    hold_hours: float | None = key(
        None,
        Number(most=720, unit="hours"),
        "Hold the host for this long, used or not, even beyond `hours`.",
        usual="it is judged by its use",
    )
    wait_minutes: float = key(30.0, Number(most=1440, unit="minutes"), "The longest search for capacity.")

    @property
    def source(self) -> NamedBy:
        return next(source for source in SOURCES if getattr(self, source))

    @property
    def name(self) -> str:
        return str(getattr(self, self.source))


def read_input(execution_input: object) -> DevHostRequest | InputFaults:
    """Return the request in the execution's input, or all its faults."""
    request, section = Record(DevHostRequest).read_document(execution_input)
    section.require_one(SOURCES, '{"image": "ami-..."}, {"run": "..."} or {"latest": "NAME"}')
    return _refused(*section.faults) if section.faults else request


def refuse_unrequested(name: str) -> InputFaults:
    """Return the fault of an execution that a user started by hand: IAM does not vouch for its name."""
    problem = (
        f"no user has requested a dev host {show_value(name)} by this run; only an event of its owner does: "
        f"{command_line('dev', 'up', 'NAME')}"
    )
    return _refused(Fault("dev", problem))


def read_request(row: DevRow, *, most_hours: float = 0.0) -> DevHostRequest | InputFaults:
    """Return the request of a dev host's owner, or all its faults. It may name no image. The market is on demand by
    default, because EC2 can stop such hosts. `most_hours` limits a run or hold; 0 means no limit."""
    request, section = Record(DevHostRequest).read_document(
        {"market": "on_demand", **json.loads(row.request)}
    )
    if sum(map(section.has, SOURCES)) > 1:
        section.require_one(SOURCES, "one image, or none")
    read = not section.faults
    for each in ("hours", "hold_hours"):
        hours = getattr(request, each) if read else None
        if most_hours and hours is not None and hours > most_hours:
            section.fault(
                each,
                f"found {hours:g}; this yard allows a user's host {most_hours:g} hours (most_hold_hours): ask "
                f"for less (--hours), or ask an operator to hold the host longer once it runs "
                f"({command_line('hold', 'HOST', 'TIME')})",
            )
    return _refused(*section.faults) if section.faults else request


def choose_image(
    row: DevRow, request: DevHostRequest, images: Collection[Image]
) -> Image | InputFaults | None:
    """Return the image that the owner names, else the newest of the dev host; None for the yard's current image."""
    if any(getattr(request, source) for source in SOURCES):
        return find_image(request, images, owner=row.owner)
    found = dev.own_image(row.name, row.owner, images)
    if found is None or found.available:
        return found
    remove = command_line("dev", "down", row.name, "--keep", "nothing")
    wait = "try again once it is" if found.state == "pending" else remove
    return _refused(
        Fault("dev", f"the image {found.id} of {row.name} is {found.state}, not available; {wait}")
    )


def find_image(
    request: DevHostRequest, images: Collection[Image], *, owner: str | None = None
) -> Image | InputFaults:
    """Return the newest available image of the run or family. The image of a dev host is only for dev hosts of its
    `owner`."""
    mine = [image for image in images if _is_meant(request, image)]
    if not mine:
        return _refused(Fault(request.source, _refuse_owner(request)))
    found = newest(mine)
    if whose := dev_tags.dev_host_of(found.tags, owner):
        problem = (
            f"the image {found.id} belongs to {whose}, and contains its files; its owner gets it back with: "
            f"{command_line('dev', 'up')}"
        )
        return _refused(Fault(request.source, problem))
    if found.available:
        return found
    wait = "wait until it is" if found.state == "pending" else "use another image"
    problem = f"the image {found.id} is {found.state}, not available; {wait}"
    return _refused(Fault(request.source, problem))


def check_cost(dollars: float, hours: float, most: float) -> InputFaults | None:
    """Return the fault of a host that may cost more than one run of the yard; None within the limit, or without a
    limit (0)."""
    if not most or dollars <= most:
        return None
    problem = (
        f"the dearest allowed host costs up to ${dollars:,.2f} in {hours:g} hours; this yard allows a run "
        f"${most:g} (most_dollars_per_run): ask for fewer hours (--hours) or a cheaper type (--type)"
    )
    return _refused(Fault("hours", problem))


def admit(
    request: DevHostRequest, name: str, *, types: Sequence[str], zones: Collection[str]
) -> Job | InputFaults:
    """Return the launch as a job for one host of one of `types`; `zones` are the yard's."""
    faults = [
        Fault(
            f"zones[{index}]",
            f"{show_value(zone)} is not a zone of the yard, which has subnets in {', '.join(sorted(zones))}",
        )
        for index, zone in enumerate(request.zones)
        if zone not in zones
    ]
    chosen = tuple(name for name in types if name in catalog().types)
    if not chosen:
        problem = f"is missing, and the type that {name} was made on is unknown; name a type"
        faults.append(Fault("instance_types", problem))
    if faults:
        return _refused(*faults)
    hardware = Hardware(
        instance_types=chosen,
        market=request.market,
        max_dollars_per_hour=request.max_dollars_per_hour,
        zones=request.zones,
        disk_gib=request.disk_gib,
    )
    return one_host_job(
        name, hardware, hours=request.hours, wait_minutes=request.wait_minutes, restarts=MOST_HOSTS - 1
    )


def decide_after(trouble: Trouble, *, attempt: int, now: datetime, deadline: datetime) -> Retry | EndRun:
    """Decide whether another host from another capacity pool follows."""
    stop = partial(EndRun, attempt=attempt)
    why = f": {trouble.reason.strip()}" if trouble.reason.strip() else ""
    happened = f"Host {attempt} of at most {MOST_HOSTS}: {trouble.error}{why}"
    if trouble.final or not trouble.is_passing:
        return stop(error=trouble.error, reason=happened)
    if attempt >= MOST_HOSTS:
        return stop(error=trouble.error, reason=f"{happened}. No further host is tried; launch again later.")
    if now + timedelta(seconds=HOST_SECONDS) >= deadline:
        return stop(error="LimitReached", reason=f"{happened}. Its hours are used up; ask for more.")
    reason = f"{happened}. Another host follows, from another capacity pool if possible."
    return Retry(seconds=HOST_SECONDS, keep=RetainedHosts.NONE, reason=reason, attempt=attempt + 1)


def summarise(ended: EndedRun) -> LaunchSummary:
    """Return the summary.json of a launch: the host, its cost and how to reach it, or the failure."""
    row, well = ended.row, ended.conclusion.error is None
    return {
        **summary.head(ended),
        "kind": "launched" if well else ended.conclusion.outcome.value,
        "image": row.image_id if row else None,
        "family": row.name if row else None,
        "dev": row.dev if row else None,
        **(_host(ended.records, ended.now) if ended.records and well else HostAccess()),
        "attempts": summary.attempts(ended),
        "where": {"folder": ended.folder},
    }


def connect(instance: str, name: str | None = None) -> str:
    """Return the command that opens a session on the host, or on the dev host `name`."""
    return command_line("dev", "shell", name) if name else command_line("shell", instance)


def _host(records: Records, now: datetime) -> HostAccess:
    """Return the host of the last attempt."""
    (host,) = records.members(max(records.attempts))
    ends, hours = records.run.deadline, records.run.hold_hours
    held = now + timedelta(hours=hours) if hours else None
    return {
        "instance": host.instance,
        "address": host.address,
        "zone": host.zone,
        "type": host.type,
        "market": host.market.value,
        "price": host.price,
        "prices": (records.plan.prices or None) if records.plan else None,
        "until": serialization.timestamp(max(ends, held or ends)) if ends else None,
        "held": serialization.timestamp(held) if held else None,
        "connect": connect(host.instance, records.run.dev),
    }


def _is_meant(request: DevHostRequest, image: Image) -> bool:
    match request.source:
        case "image":
            return image.id == request.name
        case "run":
            return request.name in (image.run, image.execution)
        case "latest":
            return image.family == request.name
    assert_never(request.source)


def _refuse_owner(request: DevHostRequest) -> str:
    what = {
        "image": f"the yard has no image {request.name}: it was never made here, or was retired",
        "run": f"no image was made by the run {request.name} or of a host of it, or it was retired",
        "latest": f"no image belongs to a family {request.name}, or all were retired",
    }[request.source]
    return f"{what}; images/report.txt in the bucket lists the images"


def _refused(*faults: Fault) -> InputFaults:
    return InputFaults(WHAT, faults, so=SO)
