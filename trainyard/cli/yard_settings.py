"""The quotas, types and network that a yard needs, by the settings of cdk.json and of the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from trainyard.cli import clone
from trainyard.cli.options import SettingsError
from trainyard.client.admin.requirements import Need, Needs, Network
from trainyard.client.errors import NotHere
from trainyard.core.model.hardware import BUILDER_TYPES, Hardware
from trainyard.core.model.instance_types import cpu_types, instance_type, quota
from trainyard.core.model.yard import settings
from trainyard.protocol.plan import Market

MOST_PREDICTIONS = 50
"""The default of the setting most_predictions_at_once."""
WORKERS = 2
"""The workers of a first job, as in the demo."""


def needs(changes: Sequence[str] | None, deployed: Mapping[str, str] | None = None) -> Needs:
    """Return what a yard needs. Settings of the `deployed` yard override cdk.json, and `changes` override both.

    Raises SettingsError.
    """
    try:
        context: dict[str, Any] = json.loads((clone.find() / "cdk.json").read_text())["context"]
    except NotHere:
        context = {}
    try:
        return needs_of({**context, **(deployed or {}), **settings.read_words(changes or ())})
    except ValueError as error:
        raise SettingsError(str(error)) from None


def needs_of(context: Mapping[str, Any]) -> Needs:
    """Return the needs of a bake and of a first job with two workers on spot, with and without GPUs.

    Raises ValueError with the name of the wrong setting.
    """
    chosen = {key: settings.read(key, value) for key, value in context.items()}
    jobs = Hardware().instance_types
    gpu, baking, cpu = (instance_type(name) for name in (jobs[0], BUILDER_TYPES[0], cpu_types()[0]))
    wanted = (
        (quota(gpu, Market.SPOT), WORKERS * gpu.vcpus, f"{WORKERS} x {gpu.name} on spot"),
        (quota(baking, Market.ON_DEMAND), baking.vcpus, f"a bake on {baking.name} if spot has no capacity"),
        (quota(cpu, Market.ON_DEMAND), cpu.vcpus, f"a bake and a first job without a GPU, on {cpu.name}"),
        (quota(cpu, Market.SPOT), cpu.vcpus, f"parameter servers on {cpu.name}"),
    )
    network = Network(
        vpc=chosen.get("vpc", ""),
        subnets=chosen.get("subnets", ()),
        private=chosen.get("private", False),
        s3_endpoint=chosen.get("s3_endpoint", False),
        base_image_parameter=chosen.get("base_image_parameter", Network.base_image_parameter),
    )
    return Needs(
        types=sorted({*jobs, *BUILDER_TYPES}),
        quotas=[Need(known.code, known.name, vcpus, purpose) for known, vcpus, purpose in wanted if known],
        monthly_dollars=chosen.get("monthly_dollars", 0.0),
        notify=chosen.get("notify", ""),
        network=network,
        key=chosen.get("kms_key", ""),
        data_buckets=chosen.get("data_buckets", ()),
        yard=chosen.get("yard", Needs.yard),
        most_predictions_at_once=chosen.get("most_predictions_at_once", MOST_PREDICTIONS),
    )
