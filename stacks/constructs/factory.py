"""Make functions with the environment and the permissions that they declare (`NEEDS`, lambdas/needs.py)."""

import json
from collections.abc import Mapping
from types import ModuleType

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_s3 as s3
from constructs import Construct

from lambdas import workflows
from lambdas.needs import Compiled, Needs
from stacks.constructs.function import CompiledDependencies, Dependencies, Function
from stacks.constructs.names import by_name
from stacks.constructs.permissions.grants import Granting, Launching, topic_arn
from stacks.settings import YardSettings
from trainyard.core.model.names import CONCLUDES
from trainyard.core.model.yard import policy
from trainyard.core.model.yard.policy import Policy


class FunctionFactory:
    """Functions of one stack with that stack's own layers, because a layer's ARN changes with its content."""

    def __init__(
        self, scope: cdk.Stack, settings: YardSettings, bucket: s3.IBucket, table: dynamodb.ITable
    ) -> None:
        self.settings, self.bucket, self.table = settings, bucket, table
        self._stack, self._dependencies = scope, Dependencies(scope, "Dependencies")
        self._layers: dict[Compiled, CompiledDependencies] = {}

    def make(
        self,
        scope: Construct,
        module: ModuleType,
        *,
        word: str = "",
        needs: Needs | None = None,
        launching: Launching | None = None,
        **given: str,
    ) -> Function:
        """Make the function of this module of `lambdas.workflows`, with the permissions that it declares. `word` and
        `needs` are for a second function of the same module, `given` for settings that only its construct has."""
        needs = needs or module.NEEDS
        assert needs is not None
        if launching:
            given["launch_templates"] = launching.templates.setting
        function = Function(
            scope,
            word or module.__name__.removeprefix(f"{workflows.__name__}."),
            module=module.__name__,
            needs=needs,
            environment=self._environment(needs, given),
            settings=self.settings,
            layers=[self._dependencies, *([self._compiled(needs.compiled)] if needs.compiled else [])],
        )
        granting = Granting(function.its_role, self.settings, self.bucket, self.table, launching)
        for each in needs.grants:
            granting.grant(each)
        return function

    def _compiled(self, packages: Compiled) -> CompiledDependencies:
        """Return the layer of a list of compiled packages, built only if a function needs it."""
        if packages not in self._layers:
            self._layers[packages] = CompiledDependencies(self._stack, packages)
        return self._layers[packages]

    def _environment(self, needs: Needs, given: Mapping[str, str]) -> dict[str, str]:
        """Return a variable for each setting that the function reads, except those that a construct adds later."""
        known = {name: given.get(name, self._setting(name)) for name in needs.settings.fields()}
        return {name.upper(): value for name, value in known.items() if value is not None}

    def _setting(self, name: str) -> str | None:
        yard = self.settings.yard
        match name:
            case "table_name":
                return self.table.table_name
            case "bucket_name":
                return self.bucket.bucket_name
            case "topic_arn":
                return topic_arn(self._stack, yard)
            case "pull_through":
                ecr = f"{self._stack.account}.dkr.ecr.{self._stack.region}.{self._stack.url_suffix}"
                return ",".join(f"{each.registry}={ecr}/{each.place}" for each in self.settings.pull_through)
            case "state_machine_arns":
                return ",".join(self._machine(kind) for kind in CONCLUDES)
        if name.endswith("_state_machine_arn"):
            return self._machine(name.removesuffix("_state_machine_arn").replace("_", "-"))
        if name.endswith("_document"):
            return f"{yard}-{name.removesuffix('_document')}"
        return _text(getattr(self.settings, name, None))

    def _machine(self, word: str) -> str:
        return by_name(self._stack, "states", "stateMachine", f"{self.settings.yard}-{word}")


def _text(value: object) -> str | None:
    match value:
        case None | str():
            return value
        case float():
            return f"{value:g}"
        case tuple():
            return ",".join(map(str, value))
        case Policy():
            return json.dumps(policy.to_json(value), sort_keys=True)
        case _:
            return str(value)
