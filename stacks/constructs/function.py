"""One handler as a Lambda function with its own role, which at first may only write its log."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from lambdas.needs import Compiled, Needs
from stacks.constructs import packages
from stacks.constructs.acknowledge import acknowledge, skip
from stacks.constructs.names import arn_in
from stacks.constructs.packages import layers
from stacks.constructs.permissions.kms import key_of
from stacks.settings import YardSettings
from trainyard.core.model.yard.settings import DAYS

ACCEPTED = {
    "CKV_AWS_115": "Reserved concurrency would reduce that of the account's other functions; the yard's limits bound "
    "it.",
    "CKV_AWS_116": "The rule or the function's failures send failed events to the yard's queue.",
    "CKV_AWS_117": "It connects only to AWS, by TLS; in a VPC it would need endpoints that are billed by the hour.",
    "CKV_AWS_173": "Names and ARNs, which are no secret for viewers of the function; AWS's key encrypts them.",
}
LOG_ACCEPTED = {"CKV_AWS_158": "AWS's own key, unless the yard has one (kms_key)."}
RUNTIME = lambda_.Runtime(f"python{layers.PYTHON}", lambda_.RuntimeFamily.PYTHON)


class Dependencies(lambda_.LayerVersion):
    """The packages of requirements/lambda.txt, which all functions import."""

    def __init__(self, scope: Construct, name: str) -> None:
        super().__init__(
            scope,
            name,
            code=_code(layers.layer_folder()),
            description="Packages of requirements/lambda.txt",
            compatible_runtimes=[RUNTIME],
            compatible_architectures=[lambda_.Architecture.ARM_64, lambda_.Architecture.X86_64],
        )


class CompiledDependencies(lambda_.LayerVersion):
    """The packages of a list in requirements/, compiled for the platform of this deployment's functions."""

    def __init__(self, scope: Construct, packages: Compiled) -> None:
        platform = layers.functions_platform()
        super().__init__(
            scope,
            f"CompiledDependencies{packages.capitalize()}",
            code=_code(layers.compiled_layer_folder(packages, platform)),
            description=f"Packages of requirements/{packages}.txt for {platform}",
            compatible_runtimes=[RUNTIME],
            compatible_architectures=[lambda_.Architecture.ARM_64],
        )


class Function(lambda_.Function):
    """The function `<yard>-train-await-hosts` of the word `train.await_hosts`, with the handler of `module`.

    In `scope`, the construct of its workflow, the name is `AwaitHosts`."""

    def __init__(
        self,
        scope: Construct,
        word: str,
        *,
        module: str,
        needs: Needs,
        environment: Mapping[str, str],
        settings: YardSettings,
        layers: Sequence[lambda_.ILayerVersion],
    ) -> None:
        dashed = word.replace(".", "-").replace("_", "-")
        yard = settings.yard
        name = f"{yard}-{dashed}"
        holder = Construct(scope, camel(word.rpartition(".")[2]))
        self.word, self.dashed, self.name, self.log_name = word, dashed, name, f"/{yard}/functions/{dashed}"
        self.log = logs.LogGroup(
            holder,
            "Log",
            log_group_name=self.log_name,
            encryption_key=key_of(holder, settings.kms_key),
            retention=retention_days(settings.log_days),
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        role = iam.Role(
            holder,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=f"What {name} may do",
        )
        super().__init__(
            holder,
            "Function",
            function_name=name,
            runtime=RUNTIME,
            architecture=lambda_.Architecture.ARM_64,
            code=_code(packages.functions_folder()),
            handler=f"{module}.handler",
            layers=layers,
            environment={"POWERTOOLS_SERVICE_NAME": yard, **environment},
            memory_size=needs.memory_mib,
            timeout=cdk.Duration.minutes(needs.minutes),
            role=role,
            log_group=self.log,
        )
        self.log.grant_write(role)
        skip(self, ACCEPTED)
        skip(self.log, LOG_ACCEPTED)
        acknowledge(self, "L1", "The version for which every pinned package has a release.")

    @property
    def its_role(self) -> iam.Role:
        role = self.role
        assert isinstance(role, iam.Role)
        return role

    def arn_in(self, scope: Construct) -> str:
        """Return the ARN for use in the stack of `scope`."""
        return arn_in(scope, self, self.function_arn, "lambda", "function", self.name)

    def aws_metric(self, metric: str) -> cloudwatch.Metric:
        """Return the sum over five minutes of one of the function's `AWS/Lambda` metrics, for any stack."""
        return cloudwatch.Metric(
            namespace="AWS/Lambda",
            metric_name=metric,
            dimensions_map={"FunctionName": self.name},
            statistic="Sum",
        )


def functions_of(*scopes: Construct) -> list[Function]:
    """Return all functions in these scopes."""
    return [node for scope in scopes for node in scope.node.find_all() if isinstance(node, Function)]


def camel(word: str) -> str:
    """Return `bake.launch` as CloudFormation and the workflows spell it: `BakeLaunch`."""
    return "".join(part.capitalize() for part in re.split(r"[._-]", word))


def retention_days(days: int) -> logs.RetentionDays:
    """Return the CDK's name of one of the retentions in DAYS."""
    return dict(zip(DAYS, logs.RetentionDays, strict=False))[days]


def _code(folder: Path) -> lambda_.Code:
    return lambda_.Code.from_asset(
        str(folder), exclude=packages.NOT_UPLOADED, asset_hash=packages.asset_hash(folder)
    )
