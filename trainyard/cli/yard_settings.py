"""What a yard needs of an account, by its settings: those of a clone's cdk.json, and what is said beside them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from trainyard.cli import clone
from trainyard.cli.options import SettingsError
from trainyard.client.errors import NotHere
from trainyard.client.upkeep.preflight import Need, Needs, Network
from trainyard.core.model.instance_types import Market, cpu_types, instance_type, quota
from trainyard.core.model.job import BUILDER_TYPES, Hardware
from trainyard.core.model.yard.data_buckets import DataBucket

Value = TypeVar("Value")
WORKERS = 2
"""A gang of the demo's size: what a first job asks for."""


def needs(said: Sequence[str] | None) -> Needs:
    """Of the clone's yard, where there is a clone, else of one with the settings that it has without any. Raises
    SettingsError."""
    try:
        context: dict[str, Any] = json.loads((clone.find() / "cdk.json").read_text())["context"]
    except NotHere:
        context = {}
    for each in said or ():
        key, equals, value = each.partition("=")
        if not equals:
            raise SettingsError(f"-c {each}: say KEY=VALUE, as in -c monthly_dollars=500")
        context[key] = value
    return needs_of(context)


def needs_of(context: Mapping[str, Any]) -> Needs:
    """An instance to bake the image on, and a first job of two workers on spot; without quotas for GPUs both on
    processors. Raises SettingsError for a value that no deployment would take, either."""
    jobs = Hardware().instance_types
    gpu, baking, cpu = (instance_type(name) for name in (jobs[0], BUILDER_TYPES[0], cpu_types()[0]))
    wanted = (
        (quota(gpu, Market.SPOT), WORKERS * gpu.vcpus, f"{WORKERS} x {gpu.name} on spot"),
        (quota(baking, Market.ON_DEMAND), baking.vcpus, f"a bake on {baking.name} where spot has no room"),
        (quota(cpu, Market.ON_DEMAND), cpu.vcpus, f"a bake and a first job without a GPU, on {cpu.name}"),
        (quota(cpu, Market.SPOT), cpu.vcpus, f"parameter servers on {cpu.name}"),
    )
    subnets = str(context.get("subnets", ""))
    network = Network(
        vpc=context.get("vpc", ""),
        subnets=[each.strip() for each in subnets.split(",") if each.strip()],
        private=str(context.get("private", False)).lower() == "true",
        s3_endpoint=str(context.get("s3_endpoint", False)).lower() == "true",
        base_image_parameter=context.get("base_image_parameter", Network.base_image_parameter),
    )
    return Needs(
        types=sorted({*jobs, *BUILDER_TYPES}),
        quotas=[Need(known.code, known.name, vcpus, purpose) for known, vcpus, purpose in wanted if known],
        monthly_dollars=_read(context, "monthly_dollars", float, "a number, or 0 for no limit", 0.0),
        notify=context.get("notify", ""),
        network=network,
        key=context.get("kms_key", ""),
        data_buckets=_read(context, "data_buckets", _buckets, "buckets or folders of them, by commas", []),
    )


def _read(context: Mapping[str, Any], key: str, to: Callable[[str], Value], say: str, usual: Value) -> Value:
    if key not in context:
        return usual
    try:
        return to(str(context[key]))
    except ValueError:
        raise SettingsError(f"{key}={context[key]}: say {say}") from None


def _buckets(text: str) -> list[DataBucket]:
    return [DataBucket.of(each.strip()) for each in text.split(",") if each.strip()]
