"""What people may do with a yard: four policies for users, groups or permission sets (docs/permissions.md); and the
parameter by which they find it."""

from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from stacks.constructs import permissions
from stacks.constructs.names import by_name
from stacks.constructs.permissions.holder import PeoplesPolicy
from stacks.constructs.permissions.hosts import (
    end_hosts,
    enter_hosts,
    mark_hosts,
    sit_at_own_hosts,
    start_hosts,
    use_sessions,
)
from stacks.constructs.permissions.people import ALL_RUNS, look, put_events, send_jobs, stop_at_once
from stacks.documents import Document
from stacks.settings import YardSettings
from stacks.storage import StorageStack
from trainyard import __version__
from trainyard.core.model import submitter
from trainyard.protocol import keys, sources
from trainyard.protocol.tags import Tag

KNOWN_BY = ("aws:username", "aws:userid")
"""What IAM knows users of the account and sessions of roles by."""
OWN_JOBS = tuple(f"{submitter.FOLDER}${{{key}}}/" for key in KNOWN_BY)
"""Where IAM holds users of the account and sessions of roles to their own names: by it the yard knows who asked."""


class PeopleStack(cdk.Stack):
    """Viewers look, users look and run jobs, and sit at dev hosts by a policy beside that. Operators see to images and
    hosts, and are users besides: one policy with all of it would be longer than IAM takes where the yard has a key of
    the customer's."""

    def __init__(
        self, scope: Construct, settings: YardSettings, storage: StorageStack, *, software: str
    ) -> None:
        super().__init__(
            scope,
            "People",
            stack_name=f"{settings.prefix}-People",
            description="Trainyard: what people may do",
        )
        self._settings, self._storage, self._software = settings, storage, software
        viewer = self._policy("viewer", "Looks at runs, hosts, logs and figures of the yard")
        user = self._policy("user", "Runs jobs on the yard, and launches and images hosts")
        dev = self._policy("dev", "For users: sits at their own dev hosts")
        operator = self._policy("operator", "For users: bakes the yard's images, ends and enters its hosts")
        for policy in (viewer, user):
            look(policy, settings, storage.bucket, storage.table)
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
        self._tell(arns)

    def _tell(self, policies: Mapping[str, str]) -> None:
        """Where the yard is, once all of it is there: docs/contracts/README.md says what stands in it."""
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
            "topic": storage.topic_arn,
            "policies": policies,
        }
        ssm.StringParameter(
            self,
            "Yard",
            parameter_name=settings.yard_parameter,
            string_value=self.to_json_string(known),
            description="Where the yard is, and of which version; its history says since when",
        )

    def _policy(self, word: str, description: str) -> PeoplesPolicy:
        """IAM has no regions: a yard of the same name in another has policies of its own."""
        name = f"{self._settings.yard}-{word}-{self.region}"
        policy = PeoplesPolicy(self, word.capitalize(), managed_policy_name=name, description=description)
        cdk.CfnOutput(self, f"{word.capitalize()}PolicyArn", value=policy.managed_policy_arn)
        return policy

    def _run(self, policy: PeoplesPolicy) -> None:
        yard = self._settings.yard
        send_jobs(policy, self._storage.bucket, *OWN_JOBS)
        permissions.keep_secrets(policy, yard)
        self._start(policy, "snapshot")
        stop_at_once(policy, yard, "train", "dev-host", "snapshot")
        put_events(policy, yard, *(f"{sources.PEOPLE}${{{key}}}" for key in KNOWN_BY))

    def _operate(self, policy: PeoplesPolicy) -> None:
        bucket, yard = self._storage.bucket, self._settings.yard
        permissions.write_objects(policy, bucket, keys.IMAGES)
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
        """Whoever starts an execution of train by hand has no name that IAM vouches for."""
        permissions.allow(policy, ["states:StartExecution"], [self._machine(word) for word in words])

    def _machine(self, word: str) -> str:
        return by_name(self, "states", "stateMachine", f"{self._settings.yard}-{word}")
