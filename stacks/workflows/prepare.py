"""Prepare: steps at the end of a deployment, once before the first run."""

import aws_cdk as cdk
from constructs import Construct, IConstruct

from lambdas.workflows import prepare
from stacks.constructs import packages
from stacks.constructs.factory import FunctionFactory
from stacks.settings import YardSettings
from stacks.workflows.bake import Bake

WAITS_MINUTES = 20
"""The time until CloudFormation stops waiting, instead of an hour: three attempts of Lambda with their pauses."""


class Prepare(Construct):
    """EC2's service-linked roles, their grants on the yard's own key, the recipe in the bucket and its bake."""

    def __init__(self, scope: cdk.Stack, factory: FunctionFactory, *, bake: Bake) -> None:
        super().__init__(scope, "Prepare")
        settings, function = factory.settings, factory.make(self, prepare)
        self._prepared = cdk.CustomResource(
            self,
            "Prepared",
            resource_type="Custom::Prepared",
            service_token=function.function_arn,
            service_timeout=cdk.Duration.minutes(WAITS_MINUTES),
            properties=_desired_properties(settings, bake.software),
        )
        cdk.CfnOutput(scope, "Prepared", value=self._prepared.get_att_string("Said"))

    def after(self, *others: IConstruct) -> None:
        """Depend on these constructs: a bake needs the rules that start it."""
        self._prepared.node.add_dependency(*others)


def _desired_properties(settings: YardSettings, software: str) -> dict[str, str]:
    """Return the properties whose change makes CloudFormation call the function again."""
    key = {"Key": settings.kms_key} if settings.kms_key else {}
    if not settings.bake_on_deploy:
        return key
    recipe = packages.ROOT / settings.recipe_file
    if not recipe.is_file():
        raise ValueError(
            f"context bake_recipe={settings.bake_recipe!r}: there is no {settings.recipe_file}; write it, or set "
            "bake_on_deploy=false and upload it to the bucket yourself"
        )
    return {"Recipe": recipe.read_text(), "Software": software, **key}
