"""Submit: starts a run for each uploaded job file and each time of a schedule, and a bake for each recipe."""

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from constructs import Construct

from lambdas.workflows import submit
from stacks.constructs.events import DeadLetterQueue, rule
from stacks.constructs.factory import FunctionFactory
from stacks.constructs.names import by_name
from stacks.constructs.permissions import account_principal, allow
from stacks.constructs.permissions.grants import schedule_role_name


class Submit(Construct):
    def __init__(self, scope: cdk.Stack, factory: FunctionFactory, queue: DeadLetterQueue) -> None:
        super().__init__(scope, "Submit")
        role = self._make_schedule_role(factory, queue)
        function = factory.make(
            self,
            submit,
            schedule_role=role.role_arn,
            schedule_target=self._function_arn(factory),
            schedule_queue=queue.named.queue_arn,
        )
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

    def _make_schedule_role(self, factory: FunctionFactory, queue: DeadLetterQueue) -> iam.Role:
        """Make the group of the yard's schedules, which deletes them with the yard. Return the role that EventBridge
        Scheduler takes to call the function at their times."""
        settings = factory.settings
        scheduler.CfnScheduleGroup(self, "Schedules", name=settings.yard)
        role = iam.Role(
            self,
            "ScheduleRole",
            role_name=schedule_role_name(settings),
            assumed_by=account_principal("scheduler.amazonaws.com"),
            description="EventBridge Scheduler starts runs at the times of schedules",
        )
        allow(role, ["lambda:InvokeFunction"], [self._function_arn(factory)])
        allow(role, ["sqs:SendMessage"], [queue.named.queue_arn])
        return role

    def _function_arn(self, factory: FunctionFactory) -> str:
        return by_name(self, "lambda", "function", f"{factory.settings.yard}-submit")
