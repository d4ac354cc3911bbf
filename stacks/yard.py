"""The stacks of one yard, and what each gets from those before it."""

from itertools import pairwise

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.images import ImagesStack
from stacks.network import NetworkStack
from stacks.patrol import PatrolStack
from stacks.people import PeopleStack
from stacks.settings import YardSettings
from stacks.storage import StorageStack
from stacks.training import TrainingStack
from stacks.watch import WatchStack
from trainyard.protocol.tags import Tag

FLAGS = {"@aws-cdk/core:enablePartitionLiterals": True, "@aws-cdk/aws-iam:minimizePolicies": False}
"""Flags of the CDK for the yard's templates, whatever the app uses for its own."""


class Yard(Construct):
    """A yard in an app or a stage, in the account and region of the command line. Without settings it reads them
    from the app's context. It changes nothing outside its own stacks. Raise ValueError with the context key at
    fault."""

    def __init__(self, scope: Construct, settings: YardSettings | None = None) -> None:
        settings = settings or YardSettings.of(scope)
        super().__init__(scope, settings.prefix)
        for flag, value in FLAGS.items():
            self.node.set_context(flag, value)
        self.network = NetworkStack(self, settings)
        self.storage = StorageStack(self, settings)
        self.images = ImagesStack(self, settings, self.network, self.storage)
        self.training = TrainingStack(self, settings, self.network, self.storage, self.images)
        self.patrol = PatrolStack(self, settings, self.storage)
        self.watch = WatchStack(self, settings, self.storage, self.images, self.training, self.patrol)
        self.people = PeopleStack(self, settings, self.storage, software=self.images.bake.software)
        for earlier, later in pairwise(self.stacks):  # references by name give CloudFormation no order
            later.add_stack_dependency(earlier)
        cdk.Tags.of(self).add(Tag.YARD, settings.yard)
        if settings.permissions_boundary:
            boundary = iam.ManagedPolicy.from_managed_policy_arn(
                self, "Boundary", settings.permissions_boundary
            )
            iam.PermissionsBoundary.of(self).apply(boundary)

    @property
    def stacks(self) -> list[cdk.Stack]:
        return [
            self.network,
            self.storage,
            self.images,
            self.training,
            self.patrol,
            self.watch,
            self.people,
        ]
