"""Deployments: what CloudFormation asks of a custom resource, and what it is answered."""

from collections.abc import Mapping
from dataclasses import field

from trainyard.values.lazy import dataclass

MOST_SAID = 1000
"""Characters: an answer is 4,096 bytes at most, and an output 1,024
(docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/crpg-ref-responses.html, cloudformation-limits.html)."""


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """What a yard must have. `recipe` is the text of its recipe, `key` the ARN of the customer's KMS key; `software` is
    there for CloudFormation alone: with another one it asks again."""

    recipe: str | None = field(default=None, metadata={"wire_key": "Recipe"})
    software: str | None = field(default=None, metadata={"wire_key": "Software"})
    key: str | None = field(default=None, metadata={"wire_key": "Key"})


@dataclass(frozen=True, kw_only=True)
class ResourceRequest:
    """`asks` is Create, Update or Delete; `answer_to` the pre-signed URL that waits for the answer."""

    asks: str = field(metadata={"wire_key": "RequestType"})
    request: str = field(metadata={"wire_key": "RequestId"})
    stack: str = field(metadata={"wire_key": "StackId"})
    logical_id: str = field(metadata={"wire_key": "LogicalResourceId"})
    answer_to: str = field(metadata={"wire_key": "ResponseURL"})
    properties: Preparation = field(metadata={"wire_key": "ResourceProperties"})

    def role_arn(self, path: str) -> str:
        """Of a role of the stack's account."""
        _, partition, _, _, account, *_ = self.stack.split(":")
        return f"arn:{partition}:iam::{account}:role/{path}"


@dataclass(frozen=True, kw_only=True)
class ResourceAnswer:
    """The resource is there, or gone. `data` are its attributes."""

    status: str = field(default="SUCCESS", metadata={"wire_key": "Status"})
    physical_id: str = field(metadata={"wire_key": "PhysicalResourceId"})
    request: str = field(metadata={"wire_key": "RequestId"})
    stack: str = field(metadata={"wire_key": "StackId"})
    logical_id: str = field(metadata={"wire_key": "LogicalResourceId"})
    data: Mapping[str, str] = field(metadata={"wire_key": "Data"})


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """What came of it, for the log and for the stack's output: sentences, one behind the other."""

    said: str


def answer(asked: ResourceRequest, said: str) -> ResourceAnswer:
    """The same resource whatever was asked: nothing is ever replaced."""
    return ResourceAnswer(
        physical_id=asked.logical_id,
        request=asked.request,
        stack=asked.stack,
        logical_id=asked.logical_id,
        data={"Said": said[:MOST_SAID]},
    )
