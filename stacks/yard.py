"""The stacks of one yard, and what each is given by those before it."""

from itertools import pairwise

import aws_cdk as cdk
from constructs import Construct

from stacks.constructs.permissions import YARD_TAG
from stacks.images import ImagesStack
from stacks.network import NetworkStack
from stacks.patrol import PatrolStack
from stacks.settings import YardSettings
from stacks.storage import StorageStack
from stacks.training import TrainingStack
from stacks.watch import WatchStack


class Yard:
    """A yard in the account and region that the command line names: the templates are the same for all."""

    def __init__(self, scope: Construct) -> None:
        settings = YardSettings.of(scope)
        prefix = settings.prefix
        self.network = NetworkStack(scope, f"{prefix}-Network", settings)
        self.storage = StorageStack(scope, f"{prefix}-Storage", settings)
        self.images = ImagesStack(scope, f"{prefix}-Images", settings, self.network, self.storage)
        self.training = TrainingStack(
            scope, f"{prefix}-Training", settings, self.network, self.storage, self.images
        )
        self.patrol = PatrolStack(scope, f"{prefix}-Patrol", settings, self.storage)
        self.watch = WatchStack(
            scope, f"{prefix}-Watch", settings, self.storage, self.images, self.training, self.patrol
        )
        for earlier, later in pairwise(self.stacks):  # names between stacks tell CloudFormation no order
            later.add_stack_dependency(earlier)
        cdk.Tags.of(scope).add(YARD_TAG, settings.yard)

    @property
    def stacks(self) -> list[cdk.Stack]:
        return [self.network, self.storage, self.images, self.training, self.patrol, self.watch]
