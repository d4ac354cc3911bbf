"""Builders of small models for tests of the core."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from lambdas.core.capacity.exclusion import PlanInputs
from lambdas.core.capacity.image_choice import ImageReference, ImageSource
from lambdas.core.capacity.prices import Prices
from lambdas.core.run.conclusion.summary import EndedRun
from lambdas.core.run.outcome import Conclusion
from lambdas.core.run.records import Records
from trainyard.core.jobfile import check
from trainyard.core.model.images.image import Image
from trainyard.core.model.instance_types import catalog
from trainyard.core.model.job import Job
from trainyard.protocol.ledger.attempt import AttemptRow
from trainyard.protocol.ledger.host import HostRow
from trainyard.protocol.ledger.run import Outcome, RunRow
from trainyard.protocol.ledger.yard import PriceList
from trainyard.protocol.plan import Candidate, Market, Priced
from trainyard.protocol.storage import GIB_MONTH
from trainyard.values import serialization

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
BUCKET = "yard-bucket"
ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
G_SPOT, G_ON_DEMAND = "L-3819A6DF", "L-DB2E81BA"
CPU_SPOT, CPU_ON_DEMAND = "L-34B43A08", "L-1216C47A"
CPU_TYPES = ("c7i.large", "m7i.xlarge")


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def job(**changes: Any) -> Job:
    """Return a job of two hosts. `changes` replace whole sections of the job file."""
    document: dict[str, Any] = {
        "name": "digits",
        "program": {"module": "training.programs.digits"},
        "cluster": {"workers": 2},
        "hardware": {"instance_types": ["g6.xlarge", "g5.xlarge"]},
    }
    made = check.check(document | changes, source="jobs/digits.yaml", bucket=BUCKET)
    assert isinstance(made, Job), made.reason
    return made


def admitted(**sections: Mapping[str, Any]) -> Job:
    """Return the job of job.json: every key that admission writes, with these values instead of its own."""
    whole = dict(serialization.to_json(job()))
    for name, given in sections.items():
        if name != "data":
            assert given.keys() <= whole[name].keys(), f"no job has {set(given) - set(whole[name])} in {name}"
        whole[name] = dict(given) if name == "data" else whole[name] | dict(given)
    return serialization.read(Job, whole)


def served_job(cluster: dict[str, Any] | None = None, **hardware: Any) -> Job:
    """Return a job of a chief and two workers with a GPU, and two parameter servers without one."""
    gangs = {"instance_types": ["g6.xlarge"], "cpu_instance_types": list(CPU_TYPES), "cpu_roles": ["ps"]}
    return job(
        cluster={"strategy": "parameter_server", "workers": 2, "parameter_servers": 2} | (cluster or {}),
        hardware=gangs | hardware,
    )


WELL = Conclusion(outcome=Outcome.SUCCEEDED, error=None, reason="done")


def ended_run(
    run: str,
    seconds: float = 0,
    how: Conclusion = WELL,
    *,
    attempts: Iterable[AttemptRow] = (),
    hosts: Iterable[HostRow] = (),
    **row: Any,
) -> EndedRun:
    """Return a run that ended this many seconds after noon. Without `row`, Admit has written no row."""
    usual: dict[str, Any] = {
        "kind": "train",
        "state": "Train",
        "attempt": 1,
        "created": NOON,
        "execution_arn": "arn",
    }
    records = Records(
        serialization.from_json(RunRow, serialization.to_json({"run": run} | usual | row)),
        hosts={each.instance: each for each in hosts},
        attempts={each.attempt: each for each in attempts},
    )
    return EndedRun(run=run, bucket="b", records=records if row else None, conclusion=how, now=after(seconds))


AMI = "ami-0123456789abcdef0"


def an_image(state: str = "available", *, ami: str = AMI, architecture: str = "x86_64", **tags: str) -> Image:
    """Return an image of the yard. Names in `tags` lack the prefix."""
    marks = {f"trainyard:{key}": value for key, value in ({"yard": "trainyard"} | tags).items()}
    return Image(ami, "", state, "", "2026-11-20T12:00:00.000Z", marks, architecture)


def image_reference(source: ImageSource, named: str | None, image: Image | None = None) -> ImageReference:
    return ImageReference(source, named, image, "trainyard", "/trainyard/image")


def listed(**changes: Any) -> PriceList:
    """Return a region's complete price list, read at noon, with these changes."""
    known = catalog().types.values()
    whole: dict[str, Any] = {
        "on_demand": {each.name: each.on_demand_price for each in known if each.on_demand_price},
        "storage": {kind.value: dollars for kind, dollars in GIB_MONTH.items()},
        "read": NOON,
        "requested": NOON,
    }
    return PriceList(**(whole | changes))


def prices(region: str = "us-east-1", **changes: Any) -> Prices:
    return Prices(region, listed(**changes))


def plan_inputs(**changes: Any) -> PlanInputs:
    """Return inputs of a plan: every type in every zone, quotas of 100 vCPUs, and an available image."""
    types = ("g6.xlarge", "g5.xlarge", "g4dn.xlarge", "p6-b200.48xlarge", "p5e.48xlarge", *CPU_TYPES)
    known: dict[str, Any] = {
        "region": "us-east-1",
        "subnets": {zone: f"subnet-{zone[-1]}" for zone in ZONES},
        "offered": frozenset((name, zone) for name in types for zone in ZONES),
        "prices": prices(),
        "spot_prices": {(name, zone): 0.3 for name in types for zone in ZONES},
        "quotas": {
            **dict.fromkeys((G_SPOT, G_ON_DEMAND, CPU_SPOT, CPU_ON_DEMAND), 100.0),
            **dict.fromkeys(("L-417A185B", "L-C4BD4855"), 1000.0),
        },
        "image": image_reference(ImageSource.PARAMETER, AMI, an_image()),
    }
    return PlanInputs(**(known | changes))


def candidate(
    name: str = "g6.xlarge",
    zone: str = "us-east-1a",
    market: Market = Market.SPOT,
    beside: tuple[str, ...] = (),
) -> Candidate:
    cpu = tuple(Priced(each, 0.1 * number, 0.3) for number, each in enumerate(beside, start=1))
    return Candidate(name, zone, f"subnet-{zone[-1]}", market, 0.3, 0.805, cpu)
