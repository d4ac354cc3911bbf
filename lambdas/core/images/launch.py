"""Launching from an image: what is asked for, which host that means, whether another one follows a host that failed."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, assert_never

from lambdas.core.images.snapshot import INSTANCE
from lambdas.core.model import wire
from lambdas.core.model.image import AMI, Image, newest
from lambdas.core.model.instance_types import catalogue
from lambdas.core.model.job import NAME, RUN_ID, Fault, Hardware, InputFaults, Job, MarketChoice, one_host_job
from lambdas.core.model.job_fields import MOST_TYPES
from lambdas.core.model.lazy import dataclass
from lambdas.core.model.validation import Faults, Section, did_you_mean, shown
from lambdas.core.run.outcome import Conclusion
from lambdas.core.run.records import Records
from lambdas.core.run.recovery import Keep, Retry, Stop, Trouble

NamedBy = Literal["image", "run", "latest"]
SOURCES: tuple[NamedBy, ...] = ("image", "run", "latest")
WHAT, SO = "The launch that was asked for", "; nothing was launched"
KEYS = (
    *SOURCES, "instance_types", "market", "zones", "max_dollars_per_hour", "hours", "wait_minutes",
)  # fmt: skip
MOST_ZONES = 10
MOST_HOSTS = 3
HOST_SECONDS = 10


@dataclass(frozen=True, kw_only=True)
class LaunchRequest:
    """A launch as it was asked for: `source` says what `name` is the name of. No types: those that the image says."""

    source: NamedBy
    name: str
    instance_types: tuple[str, ...] = ()
    market: MarketChoice = MarketChoice.SPOT_THEN_ON_DEMAND
    zones: tuple[str, ...] = ()
    max_dollars_per_hour: float | None = None
    hours: float = 12.0
    wait_minutes: float = 30.0


def read_input(execution_input: object) -> LaunchRequest | InputFaults:
    """What the execution's input asks for, or every fault of it."""
    faults = Faults()
    section = Section(execution_input, "", KEYS, faults)
    family = (
        "the name of a family of images (a job's name, an instance's id or a name that a snapshot was given)"
    )
    named = {
        "image": section.text("image", pattern=AMI, allowed="an image's id (ami- and 8 to 17 hex digits)"),
        "run": section.text("run", pattern=RUN_ID, allowed="a run's id"),
        "latest": section.text("latest", pattern=rf"{NAME}|{INSTANCE}", allowed=family),
    }
    given = [key for key in SOURCES if section.given(key)]
    if len(given) != 1:
        found = f"found {' and '.join(given)}" if given else "found none of image, run and latest"
        faults.add("", f'{found}; give one: {{"image": "ami-..."}}, {{"run": "..."}} or {{"latest": "NAME"}}')
    types = _names(section, "instance_types", MOST_TYPES, "EC2 instance types", _type_problem)
    zones = _names(section, "zones", MOST_ZONES, "Availability Zones", lambda _: None)
    market = MarketChoice(section.choice("market", MarketChoice.SPOT_THEN_ON_DEMAND, MarketChoice))
    cap = section.number("max_dollars_per_hour", 0.0, most=10_000, unit="dollars")
    hours = section.number("hours", 12.0, most=720, unit="hours")
    wait = section.number("wait_minutes", 30.0, most=1440, unit="minutes")
    if faults.found:
        return _refuse(faults)
    return LaunchRequest(
        source=given[0],
        name=str(named[given[0]]),
        instance_types=types,
        market=market,
        zones=zones,
        max_dollars_per_hour=cap or None,
        hours=hours,
        wait_minutes=wait,
    )


def meant(request: LaunchRequest, images: Collection[Image]) -> Image | InputFaults:
    """The image of the yard that is meant: the newest that is available of a run or a family."""
    mine = [image for image in images if _is_meant(request, image)]
    if not mine:
        return _refused(request.source, _nobody(request))
    found = newest(mine)
    if found.available:
        return found
    wait = "wait until it is" if found.state == "pending" else "take another"
    return _refused(request.source, f"the image {found.id} is {found.state}, not available; {wait}")


def admit(
    request: LaunchRequest, image: Image, *, types: Sequence[str], zones: Collection[str]
) -> Job | InputFaults:
    """The launch as a job of one host of one of `types`; `zones` are the yard's."""
    faults = Faults()
    for index, zone in enumerate(request.zones):
        if zone not in zones:
            problem = f"{shown(zone)} is no zone of the yard; it has subnets in {', '.join(sorted(zones))}"
            faults.add(f"zones[{index}]", problem)
    chosen = tuple(name for name in types if name in catalogue().types)
    if not chosen:
        faults.add(
            "instance_types", f"is missing, and nothing says which type {image.id} was made on; name one"
        )
    if faults.found:
        return _refuse(faults)
    hardware = Hardware(
        instance_types=chosen,
        market=request.market,
        max_dollars_per_hour=request.max_dollars_per_hour,
        zones=request.zones,
    )
    name = image.family or image.id
    return one_host_job(
        name, hardware, hours=request.hours, wait_minutes=request.wait_minutes, restarts=MOST_HOSTS - 1
    )


def after(trouble: Trouble, *, attempt: int, now: datetime, deadline: datetime) -> Retry | Stop:
    """Another host from another pool, or the end of the launch."""
    why = f": {trouble.reason.strip()}" if trouble.reason.strip() else ""
    happened = f"Host {attempt} of at most {MOST_HOSTS}: {trouble.error}{why}"
    if trouble.final or not trouble.is_passing:
        return Stop(error=trouble.error, reason=happened)
    if attempt >= MOST_HOSTS:
        return Stop(error=trouble.error, reason=f"{happened}. No further host is tried; launch again later.")
    if now + timedelta(seconds=HOST_SECONDS) >= deadline:
        return Stop(
            error="LimitReached", reason=f"{happened}. The lease (hours) is used up; ask for a longer one."
        )
    reason = f"{happened}. Another host follows, from another pool where one has room."
    return Retry(after=HOST_SECONDS, keep=Keep.NONE, lost=(), reason=reason)


def summarise(
    run: str, records: Records | None, concluded: Conclusion, *, bucket: str, now: datetime
) -> dict[str, Any]:
    """summary.json of a launch: the host, what it costs and how to reach it; of one that failed, that and why."""
    row = records.run if records else None
    created = row.created if row else now
    well = concluded.error is None
    return {
        "run": run,
        "kind": "launched" if well else concluded.outcome.value,
        "outcome": concluded.outcome.value,
        "reason": concluded.reason,
        "error": concluded.error,
        "created": wire.stamp(created),
        "ended": wire.stamp(now),
        "seconds": round((now - created).total_seconds(), 3),
        "execution_arn": row.execution_arn if row else None,
        "image": row.image_id if row else None,
        "family": row.job.name if row and row.job else None,
        **(_host(records) if records and well else {}),
        "attempts": wire.to_json(records.attempt_facts()) if records else [],
        "where": {"folder": f"s3://{bucket}/runs/{run}/"},
    }


def connect(instance: str) -> str:
    """The command that opens a session on the host."""
    return f"aws ssm start-session --target {instance}"


def _host(records: Records) -> Mapping[str, Any]:
    """The host of the last attempt."""
    (host,) = records.members(max(records.attempts))
    return {
        "instance": host.instance,
        "address": host.address,
        "zone": host.zone,
        "type": host.type,
        "market": host.market.value,
        "price": host.price,
        "until": wire.stamp(records.run.deadline) if records.run.deadline else None,
        "connect": connect(host.instance),
    }


def _is_meant(request: LaunchRequest, image: Image) -> bool:
    match request.source:
        case "image":
            return image.id == request.name
        case "run":
            return request.name in (image.run, image.execution)
        case "latest":
            return image.family == request.name
    assert_never(request.source)


def _nobody(request: LaunchRequest) -> str:
    what = {
        "image": f"the yard has no image {request.name}: it was never made here, or it was retired",
        "run": f"no image was made by the run {request.name} or of a host of it, or it was retired",
        "latest": f"no image belongs to a family {request.name}, or all were retired",
    }[request.source]
    return f"{what}; images/report.txt in the bucket lists what there is"


def _names(section: Section, key: str, most: int, what: str, problem: Any) -> tuple[str, ...]:
    """A list of different texts, or none at all."""
    values = section.values.get(key)
    if values is None:
        return ()
    if not isinstance(values, list | tuple) or not 1 <= len(values) <= most:
        found = f"a list of {len(values)}" if isinstance(values, list | tuple) else shown(values)
        section.fault(key, f"found {found}; a list of 1 to {most} {what} is allowed")
        return ()
    for index, value in enumerate(values):
        if not isinstance(value, str):
            section.fault(f"{key}[{index}]", f"found {shown(value)}; a text is allowed")
        elif value in values[:index]:
            section.fault(f"{key}[{index}]", f"{shown(value)} stands in the list twice")
        elif fault := problem(value):
            section.fault(f"{key}[{index}]", fault)
    return tuple(str(value) for value in values)


def _type_problem(name: str) -> str | None:
    known = catalogue().types
    if name in known:
        return None
    return (
        f"{shown(name)} is not an EC2 instance type that Trainyard knows{did_you_mean(name, sorted(known))}"
    )


def _refused(path: str, problem: str) -> InputFaults:
    return InputFaults(WHAT, (Fault(path, problem),), so=SO)


def _refuse(faults: Faults) -> InputFaults:
    return InputFaults(WHAT, tuple(Fault(path, problem) for path, problem in faults.found), so=SO)
