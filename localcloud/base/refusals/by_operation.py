"""The rules for operations that the simulator has, by its names for them."""

from __future__ import annotations

from collections.abc import Mapping

from botocore import xform_name

from localcloud.base.refusals import Rule, objects, state_machines

RULES: Mapping[str, Rule] = {
    f"{service}.{xform_name(operation)}": rule
    for service, rules in (("s3", objects.RULES), ("stepfunctions", state_machines.RULES))
    for operation, rule in rules.items()
}
