"""What people may do with a yard: four policies for users, groups or permission sets (docs/permissions.md); and the
parameter by which they find it."""

from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from lambdas.core.edges.events import OF_PEOPLE
from lambdas.core.patrol import hold
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
from stacks.documents import Document
from stacks.settings import YardSettings
from stacks.storage import StorageStack
from trainyard import __version__
from trainyard.core.model import submitter

BY_NAME = "Of this yard, by its name: executions, logs and versions come into being later."
ALL_RUNS = ("train", "launch", "snapshot", "bake", "retire")
READ = ("runs/", "jobs/", "images/", "programs/", "data/")
KNOWN_BY = ("aws:username", "aws:userid")
"""What IAM knows users of the account and sessions of roles by."""
OWN_JOBS = tuple(f"{submitter.FOLDER}${{{key}}}/" for key in KNOWN_BY)
"""Where IAM holds users of the account and sessions of roles to their own names: by it the yard knows who asked."""
UPLOADED = (*OWN_JOBS, "programs/", "data/")


class PeopleStack(cdk.Stack):
    """Viewers look, users look and run jobs, and sit at dev hosts by a policy beside that. Operators see to images and
    hosts, and are users besides: one policy with all of it would be longer than IAM takes where the yard has a key of
    the customer's."""

    def __init__(self, scope: Construct, settings: YardSettings, storage: StorageStack) -> None:
        super().__init__(
            scope,
            "People",
            stack_name=f"{settings.prefix}-People",
            description="Trainyard: what people may do",
        )
        self._settings, self._storage = settings, storage
        viewer = self._policy("viewer", "Looks at runs, hosts, logs and figures of the yard")
        user = self._policy("user", "Runs jobs on the yard, and launches and images hosts")
        dev = self._policy("dev", "For users: sits at their own dev hosts")
        operator = self._policy("operator", "For users: bakes the yard's images, ends and enters its hosts")
        self._look(viewer)
        self._look(user)
        self._run(user)
        self._command = Document(self, "command", yard=settings.yard).document_arn
        use_sessions(dev, self._command)
        sit_at_own_hosts(dev, settings.yard, hold.TAG, key=settings.kms_key)
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
            "dashboard": settings.yard,
            "monthly_dollars": settings.monthly_dollars,
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

    def _look(self, policy: PeoplesPolicy) -> None:
        bucket, yard = self._storage.bucket, self._settings.yard
        permissions.anywhere(
            policy,
            "ec2:DescribeInstances",
            "ec2:DescribeImages",
            "cloudwatch:GetMetricData",
            "cloudwatch:ListMetrics",
            "ssm:DescribeInstanceInformation",
        )
        permissions.anywhere(policy, "ssm:DescribeParameters")
        settings = self._settings
        told = (settings.image_parameter, settings.previous_image_parameter, settings.yard_parameter)
        parameters = [permissions.parameter(name) for name in told]
        permissions.allow(policy, ["ssm:GetParameter", "ssm:GetParameterHistory"], parameters)
        permissions.read_objects(policy, bucket, *READ)
        permissions.list_objects(policy, bucket, *READ)
        permissions.use_ledger(policy, self._storage.table, "GetItem", "Query")
        permissions.list_runs(policy, self._storage.table)
        machines = [self._machine(word) for word in ALL_RUNS]
        permissions.allow(policy, ["states:ListExecutions", "states:DescribeStateMachine"], machines)
        executions = [self._executions(word) for word in ALL_RUNS]
        look = ["states:DescribeExecution", "states:GetExecutionHistory"]
        permissions.allow(policy, look, executions, because=BY_NAME)
        groups = (f"/{yard}/*", f"/aws/vendedlogs/states/{yard}-*")
        logs = [by_name(self, "logs", "log-group", group) for group in groups]
        read = [
            "logs:FilterLogEvents",
            "logs:GetLogEvents",
            "logs:StartQuery",
            "logs:GetQueryResults",
            "logs:DescribeLogStreams",
        ]
        permissions.allow(policy, read, logs, because=BY_NAME)
        alarms = by_name(self, "cloudwatch", "alarm", f"{yard}-*")
        permissions.allow(policy, ["cloudwatch:DescribeAlarms"], [alarms], because=BY_NAME)
        board = f"arn:{cdk.Aws.PARTITION}:cloudwatch::{cdk.Aws.ACCOUNT_ID}:dashboard/{yard}*"
        permissions.allow(policy, ["cloudwatch:GetDashboard"], [board], because=BY_NAME)

    def _run(self, policy: PeoplesPolicy) -> None:
        bucket = self._storage.bucket
        permissions.write_objects(policy, bucket, *UPLOADED)
        permissions.give_up_uploads(policy, bucket, *UPLOADED)
        permissions.delete_objects(policy, bucket, "programs/", "data/")
        permissions.keep_secrets(policy, self._settings.yard)
        self._start(policy, "launch", "snapshot")
        self._stop(policy, "train", "launch", "snapshot")
        bus = by_name(self, "events", f"event-bus/{self._settings.yard}")
        theirs = [f"{OF_PEOPLE}${{{key}}}" for key in KNOWN_BY]
        permissions.allow(policy, ["events:PutEvents"], [bus], {"StringEquals": {"events:source": theirs}})

    def _operate(self, policy: PeoplesPolicy) -> None:
        bucket, yard = self._storage.bucket, self._settings.yard
        permissions.write_objects(policy, bucket, "images/")
        self._start(policy, "train", "bake", "retire")
        self._stop(policy, "bake", "retire")
        end_hosts(policy, yard)
        start_hosts(policy, yard, key=self._settings.kms_key)
        mark_hosts(policy, yard, hold.TAG)
        enter_hosts(policy, yard)
        use_sessions(policy, self._command)
        letters = by_name(self, "sqs", f"{yard}-dead-letters")
        read = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"]
        permissions.allow(policy, read, [letters])

    def _start(self, policy: PeoplesPolicy, *words: str) -> None:
        """Whoever starts an execution of train by hand has no name that IAM vouches for."""
        permissions.allow(policy, ["states:StartExecution"], [self._machine(word) for word in words])

    def _stop(self, policy: PeoplesPolicy, *words: str) -> None:
        executions = [self._executions(word) for word in words]
        permissions.allow(policy, ["states:StopExecution"], executions, because=BY_NAME)

    def _machine(self, word: str) -> str:
        return by_name(self, "states", "stateMachine", f"{self._settings.yard}-{word}")

    def _executions(self, word: str) -> str:
        return by_name(self, "states", "execution", f"{self._settings.yard}-{word}:*")
