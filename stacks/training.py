"""Workflows that train a model from an uploaded job file, make images of hosts, and launch dev hosts."""

import aws_cdk as cdk
from aws_cdk import aws_events as events
from constructs import Construct

from stacks.constructs.factory import FunctionFactory
from stacks.constructs.workflow import workflows_of
from stacks.images import ImagesStack
from stacks.network import NetworkStack
from stacks.settings import YardSettings
from stacks.storage import StorageStack
from stacks.workflows.dev_host import DevHost
from stacks.workflows.notify import Notify
from stacks.workflows.predict import Predict
from stacks.workflows.prepare import Prepare
from stacks.workflows.signal import Signal
from stacks.workflows.snapshot import Snapshot
from stacks.workflows.study import Study
from stacks.workflows.submit import Submit
from stacks.workflows.train import Train
from stacks.workflows.train.host import TrainingHost
from stacks.workflows.version import Version


class TrainingStack(cdk.Stack):
    """The workflows train, study, version, snapshot and dev-host, and the rules for events and schedules of all
    workflows."""

    def __init__(
        self,
        scope: Construct,
        settings: YardSettings,
        network: NetworkStack,
        storage: StorageStack,
        images: ImagesStack,
    ) -> None:
        super().__init__(
            scope,
            "Training",
            stack_name=f"{settings.prefix}-Training",
            description="Trainyard: from job file to trained model",
        )
        bus = events.EventBus(
            self, "Bus", event_bus_name=settings.yard, description="Reports of the yard's hosts"
        )
        queue = storage.queue
        factory = FunctionFactory(self, settings, storage.bucket, storage.table)
        host = TrainingHost(self, settings, network, storage, bus)
        snapshot = Snapshot(self, factory)
        self.train = Train(
            self,
            factory,
            network,
            host=host.templates,
            release=images.release,
            snapshot=snapshot,
        )
        DevHost(self, factory, network, train=self.train, release=images.release)
        Study(self, factory, network, train=self.train)
        Version(self, factory, train=self.train)
        Predict(self, factory)
        Notify(self, factory, queue)
        Submit(self, factory, queue)
        Signal(self, factory, queue, bus, host=host)
        needed = list(self.node.children)
        prepare = Prepare(self, factory, bake=images.bake)
        workflows = workflows_of(images, self)
        for workflow in workflows:
            workflow.rules(queue)
        images.release.rules(queue, workflows)
        snapshot.undo_rules(queue, workflows)
        prepare.after(*needed)
        cdk.CfnOutput(self, "EventBusName", value=bus.event_bus_name)
