"""The image that hosts start from: its bakes, and the retirement of old images."""

import aws_cdk as cdk
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from stacks.constructs.factory import FunctionFactory
from stacks.network import NetworkStack
from stacks.settings import YardSettings
from stacks.storage import StorageStack
from stacks.workflows.bake import Bake
from stacks.workflows.bake.builder import Builder
from stacks.workflows.bake.retire import Retire
from stacks.workflows.release import Release

NOT_BAKED = "none"
"""The value of the image parameters before the first bake, and of the previous one before the second."""


class ImagesStack(cdk.Stack):
    """The workflows bake and retire, and what they share with the workflows of the next stack."""

    def __init__(
        self,
        scope: Construct,
        settings: YardSettings,
        network: NetworkStack,
        storage: StorageStack,
    ) -> None:
        super().__init__(
            scope,
            "Images",
            stack_name=f"{settings.prefix}-Images",
            description="Trainyard: the image of the hosts and how it is made",
        )
        ssm.StringParameter(
            self,
            "Image",
            parameter_name=settings.image_parameter,
            string_value=NOT_BAKED,
            description="The image that hosts start from; the bake workflow writes it",
        )
        ssm.StringParameter(
            self,
            "PreviousImage",
            parameter_name=settings.previous_image_parameter,
            string_value=NOT_BAKED,
            description="The image that hosts started from before; a rollback makes it the current one",
        )
        factory = FunctionFactory(self, settings, storage.bucket, storage.table)
        self.release = Release(self, factory)
        self.bake = Bake(
            self,
            factory,
            network,
            builder=Builder(self, settings, network, storage),
            retire=Retire(self, factory),
            release=self.release,
        )
        cdk.CfnOutput(self, "BakeRecipe", value=settings.recipe_key)
