"""Predict: the function that answers requests for predictions of all small models."""

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from lambdas.workflows import predict
from stacks.constructs.factory import FunctionFactory


class Predict(Construct):
    def __init__(self, scope: cdk.Stack, factory: FunctionFactory) -> None:
        super().__init__(scope, "Predict")
        self.function = factory.make(self, predict)
        if most := factory.settings.most_predictions_at_once:
            resource = self.function.node.default_child
            assert isinstance(resource, lambda_.CfnFunction)
            resource.reserved_concurrent_executions = most
