"""Submit: starts a run for each uploaded job file, and a bake for each recipe."""

import aws_cdk as cdk
from aws_cdk import aws_events as events
from constructs import Construct

from lambdas.workflows import submit
from stacks.constructs.events import DeadLetterQueue, rule
from stacks.constructs.factory import FunctionFactory


class Submit(Construct):
    def __init__(self, scope: cdk.Stack, factory: FunctionFactory, queue: DeadLetterQueue) -> None:
        super().__init__(scope, "Submit")
        function = factory.make(self, submit)
        for name, folder, description in (
            ("JobUploaded", "jobs", "A job file was uploaded: start a run"),
            ("RecipeUploaded", "images", "A recipe was uploaded: start a bake"),
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
