"""Bake, first step: a builder from the newest base image."""

from typing import Any

from lambdas import settings
from lambdas.aws import documents, instances
from lambdas.aws.instances import Instance
from lambdas.aws.ledger import (
    AlreadyWrittenError,
    Ledger,
    attempt_row,
    event_row,
    host_row,
    look_up_row,
    run_row,
)
from lambdas.core import tokens, wire
from lambdas.core.catalogue import catalogue
from lambdas.core.errors import CapacityRefused, Misconfigured
from lambdas.core.pace import BUILDER_LEASE
from lambdas.handlers.voice import clock, logger, note
from lambdas.settings import BakeLaunchSettings


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    yard = settings.read(BakeLaunchSettings)
    run, ledger, now = str(event["run"]), Ledger(yard.table_name), clock()
    begun = {
        "kind": "bake",
        "state": "Launch",
        "attempt": 1,
        "created": wire.instant(event["started"]),
        "execution_arn": event["execution"],
    }
    try:
        ledger.write(run_row(run, begun, unless="created"))
    except AlreadyWrittenError:
        logger.info("%s was begun by an earlier call", run)
    base = _base_image(yard)
    tags = {
        "trainyard:yard": yard.yard,
        "trainyard:run": run,
        "trainyard:recipe": yard.recipe,
        "trainyard:lease": wire.stamp(now + BUILDER_LEASE),
        "Name": f"{run} builder",
    }
    builder = _builder(yard, run, base, tags)
    known = catalogue().types.get(builder.type)
    host = {
        "attempt": 1,
        "type": builder.type,
        "zone": builder.zone,
        "market": builder.market,
        "price": (known.on_demand_price if known else None) or 0.0,
        "launched": now,
    }
    reason = f"{builder.id} ({builder.type}) builds on {base}"
    offer = {"pool": f"{builder.type} in {builder.zone}, on-demand"}
    ledger.write(
        host_row(run, builder.id, host),
        look_up_row("instance", builder.id, run, now=now, attempt=1),
        attempt_row(run, 1, {"offer": offer, "hosts": [builder.id], "launched": now}),
        event_row(run, note("launched", reason, at=now, attempt=1, base=base)),
    )
    return {"kind": "launched", "instance": builder.id, "base": base, "reason": reason}


def _builder(yard: BakeLaunchSettings, run: str, base: str, tags: dict[str, str]) -> Instance:
    """In the first zone that has room for one."""
    refused = []
    for offer, subnet in enumerate(yard.subnet_ids):
        token = tokens.client_token(run, yard=yard.yard, attempt=1, offer=offer, round=0)
        try:
            return instances.run_builder(yard.launch_template_id, base, subnet=subnet, token=token, tags=tags)
        except CapacityRefused as no:
            logger.info("no builder in %s: %s", subnet, no.reason)
            refused.append(f"{subnet}: {no.reason}")
    raise CapacityRefused(f"No zone has room for a builder now; bake later. {'; '.join(refused)}")


def _base_image(yard: BakeLaunchSettings) -> str:
    base = documents.parameter(yard.base_image_parameter)
    if base is None or not base.startswith("ami-"):
        raise Misconfigured(
            f"The parameter {yard.base_image_parameter} holds {base or 'nothing'} and not the id of a base image. Its "
            "path differs by region and year: find it with `aws ssm get-parameters-by-path --path "
            "/aws/service/deeplearning/ami` and deploy with -c base_image_parameter=..."
        )
    return base
