"""From an uploaded job file to a trained model: functions, documents, rules, the train workflow."""

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from lambdas.core.patrol import hold
from stacks import permissions
from stacks.documents import Document
from stacks.events import DeadLetterQueue, tell
from stacks.function import Dependencies, Function
from stacks.hosts import HostRole, HostTemplate
from stacks.images import ImagesStack, network_arns
from stacks.network import NetworkStack
from stacks.permissions import (
    anywhere,
    delete_objects,
    list_objects,
    read_objects,
    read_versions,
    use_ledger,
    write_objects,
)
from stacks.settings import YardSettings
from stacks.snapshots import Launches, Snapshots
from stacks.storage import StorageStack
from stacks.workflow import Workflow

HOST_SOURCE = "trainyard.host"
LONGEST_RUN = cdk.Duration.days(60)
"""Above anything a job's limits allow: a run ends by its own rules, and this is for one that nothing ends."""


class TrainingStack(cdk.Stack):
    def __init__(
        self,
        scope: Construct,
        name: str,
        settings: YardSettings,
        network: NetworkStack,
        storage: StorageStack,
        images: ImagesStack,
    ) -> None:
        super().__init__(scope, name, description="Trainyard: from job file to trained model")
        self.settings, self.network, self.storage, self.images = settings, network, storage, images
        self.bus = events.EventBus(
            self, "Bus", event_bus_name=settings.yard, description="What hosts of the yard say"
        )
        self.lost = DeadLetterQueue(self, "DeadLetterQueue", yard=settings.yard)
        self.topic = self._topic()
        self.start = Document(self, "start", yard=settings.yard)
        self.stop = Document(self, "stop", yard=settings.yard)
        self.host_role = self._host_role()
        self.template = HostTemplate(
            self,
            "Host",
            yard=settings.yard,
            image=f"resolve:ssm:{settings.image_parameter}",
            role=self.host_role,
            security_group=network.hosts,
            initialization_rate=settings.volume_initialization_rate,
            tags={
                "trainyard:bucket": storage.bucket.bucket_name,
                "trainyard:bus": self.bus.event_bus_name,
            },
        )
        self.layer = Dependencies(self, "Dependencies")
        self.conclude = conclude = self._conclude()
        self.snapshots = Snapshots(self, "Snapshots", settings, storage, images, self._function)
        plan, launch = self._plan(), self._launch()
        self.steps = [
            self._admit(),
            plan,
            launch,
            self._await_hosts(),
            self._train(),
            self._pure_function("train.recover"),
            self.snapshots.rest,
            self.snapshots.capture,
            self.snapshots.undo,
            images.release,
            conclude,
        ]
        self.workflow = Workflow(
            self,
            "train",
            yard=settings.yard,
            functions=self.steps,
            timeout=LONGEST_RUN,
            look_seconds=settings.look_seconds,
        )
        shared = [plan, launch, images.release, self._pure_function("launch.recover")]
        self.launches = Launches(
            self, "Launches", settings, network, storage, steps=shared, make=self._function
        )
        self.submit, self.signal = self._submit(), self._signal()
        self._listen()
        self._clear_up()
        self._schedules()
        cdk.CfnOutput(self, "EventBusName", value=self.bus.event_bus_name)
        cdk.CfnOutput(self, "TrainStateMachineArn", value=self.workflow.state_machine_arn)

    @property
    def functions(self) -> list[Function]:
        return [node for node in self.node.find_all() if isinstance(node, Function)]

    # ------------------------------------------------------------------------------------------------- hosts

    def _host_role(self) -> HostRole:
        """One role for all hosts: runs of one yard trust each other."""
        role = HostRole(self, "HostRole", description="What hosts of the yard may do")
        bucket = self.storage.bucket
        read_objects(role, bucket, "programs/", "data/", "runs/")
        write_objects(role, bucket, "runs/")
        delete_objects(role, bucket, "runs/*/checkpoints/")
        list_objects(role, bucket, "programs/", "data/", "runs/")
        permissions.allow(
            role,
            ["events:PutEvents"],
            [self.bus.event_bus_arn],
            {"StringEquals": {"events:source": HOST_SOURCE}},
        )
        permissions.publish_metrics(role)
        anywhere(role, "cloudwatch:GetMetricData")
        return role

    # --------------------------------------------------------------------------------------------- functions

    def _function(self, word: str, *, minutes: float = 1, lost: bool = False, **environment: str) -> Function:
        """Common settings are every function's; `lost` is for those that events call: they have nobody to tell."""
        function = Function(
            self,
            word,
            yard=self.settings.yard,
            dependencies=self.layer,
            minutes=minutes,
            environment={
                "YARD": self.settings.yard,
                "TABLE_NAME": self.storage.table.table_name,
                "BUCKET_NAME": self.storage.bucket.bucket_name,
                **environment,
            },
        )
        if lost:
            self._keep_failures(function)
        return function

    def _keep_failures(self, function: Function) -> None:
        """What events bring and the function fails on goes to the queue of lost events.

        Written out, since Function's own `on_failure` would grant reading the queue too; and in this stack, since
        a function of the stack below may not refer to this one's queue.
        """
        place = Construct(self, f"{function.word}Failures")
        sends = iam.PolicyStatement(actions=["sqs:SendMessage"], resources=[self.lost.queue_arn])
        may = iam.Policy(place, "Policy", roles=[function.its_role], statements=[sends])
        config = lambda_.CfnEventInvokeConfig(
            place,
            "Resource",
            function_name=function.function_name,
            qualifier="$LATEST",
            destination_config={"onFailure": {"destination": self.lost.queue_arn}},
        )
        config.node.add_dependency(may)  # Lambda looks whether the function may, before it takes the setting

    def _submit(self) -> Function:
        train, bake = self.workflow.state_machine_arn, self.images.workflow.state_machine_arn
        function = self._function(
            "submit", lost=True, TRAIN_STATE_MACHINE_ARN=train, BAKE_STATE_MACHINE_ARN=bake
        )
        role = function.its_role
        read_versions(role, self.storage.bucket, "jobs/", "images/")
        permissions.allow(role, ["states:StartExecution"], [train, bake])
        return function

    def _admit(self) -> Function:
        function = self._function("train.admit", MONTHLY_DOLLARS=f"{self.settings.monthly_dollars:g}")
        role, bucket = function.its_role, self.storage.bucket
        read_versions(role, bucket, "jobs/")
        read_objects(role, bucket, "jobs/", "programs/", "runs/*/checkpoints/latest.json")
        list_objects(role, bucket, "jobs/", "programs/", "data/", "runs/*/checkpoints/latest.json")
        write_objects(role, bucket, "runs/")
        use_ledger(role, self.storage.table, "GetItem", "PutItem", "UpdateItem")
        return function

    def _plan(self) -> Function:
        function = self._function(
            "train.plan",
            IMAGE_PARAMETER=self.settings.image_parameter,
            SUBNET_IDS=cdk.Fn.join(",", [subnet.subnet_id for subnet in self.network.subnets]),
        )
        role = function.its_role
        permissions.plan_launches(role)
        permissions.read_parameters(role, self.settings.image_parameter, "ssm:GetParameter")
        write_objects(role, self.storage.bucket, "runs/")
        use_ledger(role, self.storage.table, "Query", "PutItem", "UpdateItem")
        return function

    def _launch(self) -> Function:
        function = self._function(
            "train.launch",
            minutes=3,
            LAUNCH_TEMPLATE_ID=self.template.ref,
            LAUNCH_TEMPLATE_VERSION=self.template.attr_latest_version_number,
        )
        role = function.its_role
        permissions.launch_hosts(
            role,
            calls=["ec2:CreateFleet", "ec2:RunInstances"],
            template_id=self.template.ref,
            network=network_arns(self, self.network),
            pass_role=self.host_role,
            yard=self.settings.yard,
            images=permissions.tagged(self.settings.yard),
        )
        permissions.read_parameters(role, self.settings.image_parameter, "ssm:GetParameters")
        anywhere(role, "ec2:DescribeInstances")
        use_ledger(role, self.storage.table, "Query", "PutItem", "UpdateItem")
        return function

    def _await_hosts(self) -> Function:
        function = self._function("train.await_hosts")
        role = function.its_role
        anywhere(role, "ssm:DescribeInstanceInformation", "ec2:DescribeInstances")
        permissions.answer_tasks(role, "Success", "Failure")
        use_ledger(role, self.storage.table, "Query", "PutItem", "UpdateItem")
        return function

    def _train(self) -> Function:
        function = self._function("train.train", START_DOCUMENT=self.start.document_name)
        role, bucket = function.its_role, self.storage.bucket
        read_objects(role, bucket, "runs/")
        list_objects(role, bucket, "runs/")
        write_objects(role, bucket, "runs/")
        permissions.command_hosts(role, self.start.document_arn, self.settings.yard)
        permissions.answer_tasks(role, "Success", "Failure")
        use_ledger(role, self.storage.table, "Query", "PutItem", "UpdateItem")
        return function

    def _pure_function(self, word: str) -> Function:
        """Decides and does nothing: its role has no permission but to write its log."""
        return Function(self, word, yard=self.settings.yard, dependencies=self.layer, environment={})

    def _conclude(self) -> Function:
        function = self._function("train.conclude", lost=True, TOPIC_ARN=self.topic.topic_arn)
        role, bucket = function.its_role, self.storage.bucket
        read_objects(role, bucket, "runs/")
        list_objects(role, bucket, "runs/")
        write_objects(role, bucket, "runs/")
        permissions.allow(role, ["sns:Publish"], [self.topic.topic_arn])
        use_ledger(role, self.storage.table, "Query", "PutItem", "UpdateItem")
        return function

    def _signal(self) -> Function:
        function = self._function("signal", lost=True, STOP_DOCUMENT=self.stop.document_name)
        role = function.its_role
        permissions.answer_tasks(role, "Success", "Failure", "Heartbeat")
        anywhere(
            role, "ssm:DescribeInstanceInformation", "ssm:ListCommandInvocations", "ec2:DescribeInstances"
        )
        permissions.command_hosts(role, self.stop.document_arn, self.settings.yard)
        permissions.mark_hosts(role, self.settings.yard, hold.TAG)
        read_objects(role, self.storage.bucket, "runs/")
        list_objects(role, self.storage.bucket, "runs/")
        use_ledger(role, self.storage.table, "GetItem", "Query", "PutItem", "UpdateItem")
        return function

    # ------------------------------------------------------------------------------------------------ events

    def _listen(self) -> None:
        """Who is told of what. EC2's events carry no tags: signal looks every instance up and drops strangers'."""
        for name, folder, description in (
            ("JobUploaded", "jobs", "A job file was uploaded: a run starts"),
            ("RecipeUploaded", "images", "A recipe was uploaded: a bake starts"),
        ):
            tell(
                self,
                name,
                function=self.submit,
                lost=self.lost,
                description=description,
                pattern=events.EventPattern(
                    source=["aws.s3"],
                    detail_type=["Object Created"],
                    detail={
                        "bucket": {"name": [self.storage.bucket.bucket_name]},
                        "object": {
                            "key": [
                                {"wildcard": f"{folder}/*.{ending}"} for ending in ("yaml", "yml", "json")
                            ]
                        },
                    },
                ),
            )
        for name, description, pattern, bus in (
            (
                "HostSignal",
                "A host says how it is",
                events.EventPattern(source=[HOST_SOURCE]),
                self.bus,
            ),
            (
                "SpotInterruption",
                "EC2 takes a spot host back in two minutes",
                events.EventPattern(
                    source=["aws.ec2"], detail_type=["EC2 Spot Instance Interruption Warning"]
                ),
                None,
            ),
            (
                "HostGoing",
                "An instance is going or gone",
                events.EventPattern(
                    source=["aws.ec2"],
                    detail_type=["EC2 Instance State-change Notification"],
                    detail={"state": ["shutting-down", "terminated", "stopping", "stopped"]},
                ),
                None,
            ),
            (
                "ImageMade",
                "An image is ready or has failed",
                events.EventPattern(
                    source=["aws.ec2"],
                    detail_type=["EC2 AMI State Change"],
                    detail={"State": ["available", "failed"]},
                ),
                None,
            ),
            (
                "CommandEnded",
                "A document of the yard has ended",
                events.EventPattern(
                    source=["aws.ssm"],
                    detail_type=["EC2 Command Status-change Notification"],
                    detail={
                        "document-name": [{"prefix": f"{self.settings.yard}-"}],
                        "status": ["Success", "Failed", "TimedOut", "Cancelled"],
                    },
                ),
                None,
            ),
        ):
            tell(
                self,
                name,
                function=self.signal,
                lost=self.lost,
                description=description,
                pattern=pattern,
                bus=bus,
            )

    def _schedules(self) -> None:
        """Of images. A bake that would change nothing ends at once."""
        daily, bakes = events.Schedule.rate(cdk.Duration.days(1)), self.settings.bake_schedule
        self._start_at(daily, "RetireDaily", self.images.retention.workflow, "Time to retire old images")
        if bakes:
            schedule = events.Schedule.expression(bakes)
            self._start_at(schedule, "BakeSchedule", self.images.workflow, "Time to bake the yard's recipe")

    def _start_at(self, schedule: events.Schedule, name: str, workflow: Workflow, description: str) -> None:
        target = targets.SfnStateMachine(
            workflow,
            input=events.RuleTargetInput.from_object({}),
            dead_letter_queue=self.lost,
            max_event_age=cdk.Duration.hours(1),
            retry_attempts=20,
        )
        events.Rule(self, name, description=description, schedule=schedule, targets=[target])

    def _clear_up(self) -> None:
        """An execution stopped by hand or out of time runs no Catch: its own Release and Conclude never come."""
        self._keep_failures(self.images.release)
        self._keep_failures(self.images.conclude)
        self._keep_failures(self.snapshots.conclude)
        self._keep_failures(self.launches.conclude)
        name, status, execution = (
            events.EventField.from_path(f"$.detail.{each}") for each in ("name", "status", "executionArn")
        )
        train, bake, snapshot, launch = (
            each.workflow.state_machine_arn for each in (self, self.images, self.snapshots, self.launches)
        )
        reason = (
            f"The execution ended as {status}: it was stopped by hand or its time was up. Its hosts are ended. "
            "Start the job again to go on; a new run begins from the start."
        )
        bake_reason = (
            f"The execution ended as {status} before it could conclude: it was stopped by hand, its time was up, or "
            "its Conclude failed. Its builder is ended; what it had not published is retired. Bake again."
        )
        undone = (
            f"The execution ended as {status}: it was stopped by hand or its time was up. An image that was not "
            "available is gone, a paused program goes on, a host that was stopped to be imaged runs again."
        )
        unlaunched = (
            f"The execution ended as {status}: it was stopped by hand or its time was up. Its host is ended."
        )
        for rule, function, description, machines, endings, saying in (
            (
                "RunBroken",
                self.images.release,
                "An execution has not ended well: no host of it may go on",
                [train, bake, launch],
                ["FAILED", "TIMED_OUT", "ABORTED"],
                {"run": name, "execution": execution, "scope": "run"},
            ),
            (
                "RunCutShort",
                self.conclude,
                "An execution ended before its Conclude: the summary says so",
                [train],
                ["TIMED_OUT", "ABORTED"],
                {
                    "run": name,
                    "execution": execution,
                    "cut_short": True,
                    "outcome": {"kind": "error", "error": "Aborted", "reason": reason},
                },
            ),
            (
                "ImageBroken",
                self.snapshots.undo,
                "An execution has not ended well: the host that it imaged is as it was",
                [train, snapshot],
                ["FAILED", "TIMED_OUT", "ABORTED"],
                {"run": name, "execution": execution},
            ),
            (
                "SnapshotCutShort",
                self.snapshots.conclude,
                "A snapshot ended before its Conclude: the summary says so",
                [snapshot],
                ["TIMED_OUT", "ABORTED"],
                {
                    "run": name,
                    "execution": execution,
                    "cut_short": True,
                    "outcome": {"kind": "error", "error": "Aborted", "reason": undone},
                },
            ),
            (
                "LaunchCutShort",
                self.launches.conclude,
                "A launch ended before its Conclude: the summary says so",
                [launch],
                ["TIMED_OUT", "ABORTED"],
                {
                    "run": name,
                    "execution": execution,
                    "cut_short": True,
                    "outcome": {"kind": "error", "error": "Aborted", "reason": unlaunched},
                },
            ),
            (
                "BakeCutShort",
                self.images.conclude,
                "A bake ended before its Conclude, or in it: no image of it is left, and the next one may begin",
                [bake],
                ["FAILED", "TIMED_OUT", "ABORTED"],
                {
                    "run": name,
                    "execution": execution,
                    "cut_short": True,
                    "outcome": {"kind": "error", "error": "Aborted", "reason": bake_reason},
                },
            ),
        ):
            tell(
                self,
                rule,
                function=function,
                lost=self.lost,
                description=description,
                pattern=events.EventPattern(
                    source=["aws.states"],
                    detail_type=["Step Functions Execution Status Change"],
                    detail={"stateMachineArn": machines, "status": endings},
                ),
                saying=events.RuleTargetInput.from_object(saying),
            )

    def _topic(self) -> sns.Topic:
        """Told of every concluded run and of every alarm."""
        topic = sns.Topic(self, "Notices", topic_name=f"{self.settings.yard}-notices", enforce_ssl=True)
        topic.grant_publish(iam.ServicePrincipal("cloudwatch.amazonaws.com"))
        if self.settings.notify:
            topic.add_subscription(subscriptions.EmailSubscription(self.settings.notify))
        return topic
