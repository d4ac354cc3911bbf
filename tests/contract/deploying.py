"""Stacks for tests, and the ends of their deployments."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.contract.conftest import Cloud, eventually

Deploy = Callable[..., dict[str, Any]]


@pytest.fixture
def word() -> str:
    """Return a unique word for the names of one test's stacks and exports."""
    return f"s{uuid.uuid4().hex[:8]}"


@pytest.fixture
def deploy(cloud: Cloud) -> Iterator[Deploy]:
    """Return a function that deploys a stack. Remaining stacks are deleted at the end, importers first."""
    cloudformation, made = cloud.client("cloudformation"), list[str]()

    def run(name: str, template: Mapping[str, Any]) -> dict[str, Any]:
        call = cloudformation.update_stack if name in made else cloudformation.create_stack
        call(StackName=name, TemplateBody=json.dumps(template), Capabilities=["CAPABILITY_NAMED_IAM"])
        made.append(name)
        return ended(cloud, name)

    yield run
    for name in reversed(dict.fromkeys(made)):
        cloudformation.delete_stack(StackName=name)
        ended(cloud, name)


def ended(cloud: Cloud, name: str) -> dict[str, Any]:
    """Wait until a stack is stable and return it, or {} if it is gone."""

    def look() -> dict[str, Any] | None:
        try:
            (stack,) = cloud.client("cloudformation").describe_stacks(StackName=name)["Stacks"]
        except ClientError:
            return {"StackStatus": "DELETE_COMPLETE"}
        return None if stack["StackStatus"].endswith("IN_PROGRESS") else stack

    return dict(eventually(look))


def reasons(cloud: Cloud, name: str) -> list[str]:
    events = cloud.client("cloudformation").describe_stack_events(StackName=name)["StackEvents"]
    return [event["ResourceStatusReason"] for event in events if event.get("ResourceStatusReason")]
