"""Notify: the function that sends notifications of the yard's topic to webhooks, and the one that tries a webhook."""

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from constructs import Construct

from lambdas.workflows import notify, try_webhook
from stacks.constructs.events import DeadLetterQueue
from stacks.constructs.factory import FunctionFactory
from stacks.constructs.permissions.grants import topic_arn


class Notify(Construct):
    """SNS calls the function asynchronously, so Lambda repeats a failed call twice and then keeps it in the queue. A
    queue between topic and function would cost requests while nothing happens."""

    def __init__(self, scope: cdk.Stack, factory: FunctionFactory, queue: DeadLetterQueue) -> None:
        super().__init__(scope, "Notify")
        function = factory.make(self, notify, queue_url=queue.named.queue_url)
        queue.keep_failures(function)
        topic = topic_arn(self, factory.settings.yard)
        permission = lambda_.CfnPermission(
            self,
            "Permission",
            action="lambda:InvokeFunction",
            function_name=function.function_arn,
            principal=iam.ServicePrincipal("sns.amazonaws.com").service,
            source_arn=topic,
        )
        subscription = sns.CfnSubscription(
            self, "Subscription", topic_arn=topic, protocol="lambda", endpoint=function.function_arn
        )
        subscription.add_dependency(permission)
        factory.make(self, try_webhook)
