"""Permissions of users: four policies for users, groups or permission sets (docs/permissions.md), and the parameter
where the client finds the yard."""

from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from stacks.constructs import permissions
from stacks.constructs.names import by_name
from stacks.constructs.permissions import secrets
from stacks.constructs.permissions.holder import PeoplesPolicy
from stacks.constructs.permissions.hosts import (
    end_hosts,
    enter_hosts,
    mark_hosts,
    reach_served_hosts,
    sit_at_own_hosts,
    start_hosts,
    use_sessions,
)
from stacks.constructs.permissions.people import ALL_RUNS, look, put_events, send_jobs, stop_at_once
from stacks.documents import Document
from stacks.settings import YardSettings
from stacks.storage import StorageStack
from trainyard import __version__
from trainyard.protocol import keys, sources
from trainyard.protocol.predictions import function_of
from trainyard.protocol.tags import Tag

KNOWN_BY = ("aws:username", "aws:userid")
"""The keys of IAM for the names of users and of role sessions."""
CALLER = tuple(f"${{{key}}}" for key in KNOWN_BY)
"""The caller's own name. IAM fills it in, so that the yard has proof of the submitter."""


class PeopleStack(cdk.Stack):
    """The policies. Viewers read; users also run jobs, and may get a second policy for dev hosts; operators manage
    images and hosts, and also need the policy of users, because one policy with everything would exceed IAM's limit
    with a customer's key."""

    def __init__(
        self, scope: Construct, settings: YardSettings, storage: StorageStack, *, software: str
    ) -> None:
        super().__init__(
            scope,
            "People",
            stack_name=f"{settings.prefix}-People",
            description="Trainyard: policies of users",
        )
        self._settings, self._storage, self._software = settings, storage, software
        viewer = self._policy("viewer", "View runs, hosts, logs and figures of the yard")
        user = self._policy("user", "Run jobs on the yard, launch hosts and make images of them")
        dev = self._policy("dev", "For users: work on their own dev hosts")
        operator = self._policy(
            "operator", "For users: bake the yard's images, end its hosts, open sessions on them"
        )
        for policy in (viewer, user):
            look(policy, settings, storage.bucket, storage.table)
        self._serve_role = self._make_serve_role()
        self._run(user)
        self._command = Document(self, "command", yard=settings.yard).document_arn
        self._shell = Document(self, "shell", yard=settings.yard).document_arn
        use_sessions(dev, self._command, self._shell)
        sit_at_own_hosts(dev, settings.yard, Tag.HOLD, key=settings.kms_key)
        self._operate(operator)
        arns = {
            word: policy.managed_policy_arn
            for word, policy in (("viewer", viewer), ("user", user), ("dev", dev), ("operator", operator))
        }
        self._write_resources(arns)

    def _write_resources(self, policies: Mapping[str, str]) -> None:
        """Write the parameter with the yard's resources, last of all (docs/contracts/README.md)."""
        settings, storage = self._settings, self._storage
        known = {
            "version": __version__,
            "yard": settings.prefix,
            "account": self.account,
            "region": self.region,
            "bucket": storage.bucket.bucket_name,
            "table": storage.table.table_name,
            "bus": settings.yard,
            "workflows": {word: self._machine(word) for word in ALL_RUNS},
            "recipe": settings.recipe_key,
            "software": self._software,
            "dashboard": settings.yard,
            "monthly_dollars": settings.monthly_dollars,
            "most_hold_hours": settings.most_hold_hours,
            "model_url": self._make_model_url(),
            "topic": storage.topic_arn,
            "serve_role": self._serve_role.role_arn,
            "policies": policies,
        }
        ssm.StringParameter(
            self,
            "Yard",
            parameter_name=settings.yard_parameter,
            string_value=self.to_json_string(known),
            description="Resources and version of the yard; its history has the dates",
        )

    def _make_model_url(self) -> str:
        """Make the URL of the function for predictions if the yard has one. It needs permissions of users."""
        if not self._settings.model_url:
            return ""
        predict = by_name(self, "lambda", "function", function_of(self._settings.yard))
        url = lambda_.CfnUrl(self, "ModelUrl", auth_type="AWS_IAM", target_function_arn=predict)
        cdk.CfnOutput(self, "ModelUrlAddress", value=url.attr_function_url)
        return url.attr_function_url

    def _make_serve_role(self) -> iam.Role:
        """Make the role that opens the ports of hosts that serve models. A user with sessions on own dev hosts would
        otherwise get a shell on these hosts."""
        role = iam.Role(
            self,
            "ServeRole",
            assumed_by=iam.AccountRootPrincipal(),
            description="Ports of hosts that serve models, for users",
        )
        permissions.anywhere(role, "ec2:DescribeInstances")
        reach_served_hosts(
            role, self._settings.yard, Document(self, "serve-port", yard=self._settings.yard).document_arn
        )
        return role

    def _policy(self, word: str, description: str) -> PeoplesPolicy:
        """Return a policy. IAM is global, so a yard of the same name in another region has its own policies."""
        name = f"{self._settings.yard}-{word}-{self.region}"
        policy = PeoplesPolicy(self, word.capitalize(), managed_policy_name=name, description=description)
        cdk.CfnOutput(self, f"{word.capitalize()}PolicyArn", value=policy.managed_policy_arn)
        return policy

    def _run(self, policy: PeoplesPolicy) -> None:
        yard = self._settings.yard
        send_jobs(policy, self._storage.bucket, *CALLER)
        secrets.keep_secrets(policy, yard)
        predict = by_name(self, "lambda", "function", function_of(yard))
        url = ["lambda:InvokeFunctionUrl"] if self._settings.model_url else []
        permissions.allow(policy, ["lambda:InvokeFunction", *url], [predict])
        try_webhook = by_name(self, "lambda", "function", f"{yard}-try-webhook")
        permissions.allow(policy, ["lambda:InvokeFunction"], [try_webhook])
        permissions.allow(policy, ["sts:AssumeRole"], [self._serve_role.role_arn])
        self._start(policy, "snapshot")
        stop_at_once(policy, yard, "train", "study", "dev-host", "snapshot")
        put_events(policy, yard, *(sources.PEOPLE + name for name in CALLER))

    def _operate(self, policy: PeoplesPolicy) -> None:
        bucket, yard = self._storage.bucket, self._settings.yard
        put_events(policy, yard, *(sources.OPERATORS + name for name in CALLER))
        permissions.write_objects(policy, bucket, keys.IMAGES)
        permissions.upload_objects(policy, bucket, keys.DATA, delete=True)
        self._start(policy, "train", "dev-host", "bake", "retire")
        stop_at_once(policy, yard, "bake", "retire")
        end_hosts(policy, yard)
        start_hosts(policy, yard, key=self._settings.kms_key)
        mark_hosts(policy, yard, Tag.HOLD, Tag.CAP)
        enter_hosts(policy, yard)
        use_sessions(policy, self._command, self._shell)
        letters = by_name(self, "sqs", f"{yard}-dead-letters")
        read = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"]
        permissions.allow(policy, read, [letters])

    def _start(self, policy: PeoplesPolicy, *words: str) -> None:
        """Allow starting executions. An execution of train that a user starts by hand has no submitter that IAM
        verifies."""
        permissions.allow(policy, ["states:StartExecution"], [self._machine(word) for word in words])

    def _machine(self, word: str) -> str:
        return by_name(self, "states", "stateMachine", f"{self._settings.yard}-{word}")
