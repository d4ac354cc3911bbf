"""From an uploaded job file to a trained model; and images of hosts, and hosts from images."""

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from stacks.constructs.events import DeadLetterQueue
from stacks.constructs.function import FunctionFactory
from stacks.constructs.workflow import workflows_of
from stacks.images import ImagesStack
from stacks.network import NetworkStack
from stacks.settings import YardSettings
from stacks.storage import StorageStack
from stacks.workflows.launch import Launch
from stacks.workflows.signal import Signal
from stacks.workflows.snapshot import Snapshot
from stacks.workflows.submit import Submit
from stacks.workflows.train import Train
from stacks.workflows.train.host import TrainingHost


class TrainingStack(cdk.Stack):
    """The workflows train, snapshot and launch, and the rules of all: what events and the clock set off."""

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
        self.settings = settings
        bus = events.EventBus(
            self, "Bus", event_bus_name=settings.yard, description="What hosts of the yard report"
        )
        self.queue = DeadLetterQueue(self, "DeadLetterQueue", yard=settings.yard)
        self.topic = self._topic()
        self.factory = factory = FunctionFactory(self, settings, storage.bucket, storage.table)
        snapshot = Snapshot(self, factory, generalize=images.bake.generalize)
        self.train = Train(
            self,
            factory,
            network,
            host=TrainingHost(self, settings, network, storage, bus).templates,
            topic=self.topic,
            release=images.release,
            snapshot=snapshot,
        )
        Launch(self, factory, network, train=self.train, release=images.release)
        Submit(self, factory, self.queue, train=self.train, bake=images.bake)
        Signal(self, factory, self.queue, bus)
        workflows = workflows_of(images, self)
        for workflow in workflows:
            workflow.rules(self, self.queue)
        images.release.rules(self, self.queue, workflows)
        snapshot.undo_rules(self, self.queue, workflows)
        cdk.CfnOutput(self, "EventBusName", value=bus.event_bus_name)

    def _topic(self) -> sns.Topic:
        """Gets word of every concluded run and of every alarm."""
        topic = sns.Topic(self, "Notices", topic_name=f"{self.settings.yard}-notices", enforce_ssl=True)
        topic.grant_publish(iam.ServicePrincipal("cloudwatch.amazonaws.com"))
        if self.settings.notify:
            topic.add_subscription(subscriptions.EmailSubscription(self.settings.notify))
        return topic
