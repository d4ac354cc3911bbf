"""Submit: a job file that is uploaded starts a run, a recipe a bake."""

import aws_cdk as cdk
from aws_cdk import aws_events as events
from constructs import Construct

from stacks.constructs import permissions
from stacks.constructs.events import DeadLetterQueue, rule
from stacks.constructs.function import FunctionFactory
from stacks.constructs.workflow import Workflow
from trainyard.protocol import keys


class Submit(Construct):
    def __init__(
        self,
        scope: cdk.Stack,
        factory: FunctionFactory,
        queue: DeadLetterQueue,
        *,
        train: Workflow,
        bake: Workflow,
    ) -> None:
        super().__init__(scope, "Submit")
        machines = [workflow.machine.arn_in(self) for workflow in (train, bake)]
        function = factory.make(
            self, "submit", TRAIN_STATE_MACHINE_ARN=machines[0], BAKE_STATE_MACHINE_ARN=machines[1]
        )
        permissions.read_versions(function.its_role, factory.bucket, keys.JOBS, keys.IMAGES)
        permissions.allow(function.its_role, ["states:StartExecution"], machines)
        for name, folder, description in (
            ("JobUploaded", "jobs", "A job file was uploaded: a run starts"),
            ("RecipeUploaded", "images", "A recipe was uploaded: a bake starts"),
        ):
            rule(
                scope,
                name,
                function=function,
                dead_letter_queue=queue,
                description=description,
                pattern=events.EventPattern(
                    source=["aws.s3"],
                    detail_type=["Object Created"],
                    detail={
                        "bucket": {"name": [factory.bucket.bucket_name]},
                        # EventBridge compares letter by letter (UPPER.YAML): the function looks at the ending
                        "object": {"key": events.Match.prefix(f"{folder}/")},
                    },
                ),
            )
