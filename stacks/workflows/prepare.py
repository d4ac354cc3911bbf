"""Prepare: what must happen once, as the last thing of a deployment that a run needs."""

import aws_cdk as cdk
from constructs import Construct, IConstruct

from stacks.constructs import packages, permissions
from stacks.constructs.function import FunctionFactory
from stacks.constructs.permissions import kms
from stacks.settings import YardSettings
from stacks.workflows.bake import Bake
from trainyard.core.model.names import SERVICE_LINKED_ROLES

MOST_MINUTES = 5
WAITS_MINUTES = 20
"""Until CloudFormation gives the function up, in place of an hour: three tries of Lambda's, with its pauses."""


class Prepare(Construct):
    """EC2's service-linked roles, their grants on the yard's own key, the recipe in the bucket and its bake."""

    def __init__(self, scope: cdk.Stack, factory: FunctionFactory, *, bake: Bake) -> None:
        super().__init__(scope, "Prepare")
        settings, machine = factory.settings, bake.machine.arn_in(self)
        recipe = settings.recipe_key
        function = factory.make(
            self, "prepare", minutes=MOST_MINUTES, BAKE_STATE_MACHINE_ARN=machine, RECIPE_KEY=recipe
        )
        role = function.its_role
        roles = {
            service: f"arn:{cdk.Aws.PARTITION}:iam::{cdk.Aws.ACCOUNT_ID}:role/aws-service-role/{service}/{name}"
            for service, name in SERVICE_LINKED_ROLES.items()
        }
        for service, arn in roles.items():
            when = {"StringEquals": {"iam:AWSServiceName": service}}
            permissions.allow(role, ["iam:CreateServiceLinkedRole"], [arn], when)
        kms.grant(role, settings.kms_key, list(roles.values()))
        permissions.write_objects(role, factory.bucket, recipe)
        permissions.read_versions(role, factory.bucket, recipe)
        permissions.allow(role, ["states:StartExecution"], [machine])
        self._prepared = cdk.CustomResource(
            self,
            "Prepared",
            resource_type="Custom::Prepared",
            service_token=function.function_arn,
            service_timeout=cdk.Duration.minutes(WAITS_MINUTES),
            properties=_wanted(settings, bake.software),
        )
        cdk.CfnOutput(scope, "Prepared", value=self._prepared.get_att_string("Said"))

    def after(self, *others: IConstruct) -> None:
        """A bake needs the rules by which events reach it."""
        self._prepared.node.add_dependency(*others)


def _wanted(settings: YardSettings, software: str) -> dict[str, str]:
    """CloudFormation asks again when one of these has changed."""
    key = {"Key": settings.kms_key} if settings.kms_key else {}
    if not settings.bake_on_deploy:
        return key
    recipe = packages.ROOT / settings.recipe_file
    if not recipe.is_file():
        raise ValueError(
            f"context bake_recipe={settings.bake_recipe!r}: there is no {settings.recipe_file}; write it, or say "
            "bake_on_deploy=false and upload it to the bucket yourself"
        )
    return {"Recipe": recipe.read_text(), "Software": software, **key}
