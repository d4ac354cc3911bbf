"""A stack has AWS's events, with their reasons and in their order."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.contract.conftest import Cloud
from tests.contract.deploying import word

__all__ = ["word"]

USER, INITIATED = "User Initiated", "Resource creation Initiated"
REPLACED = "Requested update requires the creation of a new physical resource; hence creating one."
CLEANUP = "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS"
CREATED = {
    "stack": [("REVIEW_IN_PROGRESS", USER), ("CREATE_IN_PROGRESS", USER), ("CREATE_COMPLETE", "")],
    "Topic": [("CREATE_IN_PROGRESS", ""), ("CREATE_IN_PROGRESS", INITIATED), ("CREATE_COMPLETE", "")],
}
DELETED = [("DELETE_IN_PROGRESS", ""), ("DELETE_COMPLETE", "")]
UPDATED = [("UPDATE_IN_PROGRESS", USER), (CLEANUP, ""), ("UPDATE_COMPLETE", "")]
Change = Callable[[str, dict[str, str]], None]


@pytest.fixture
def change(cloud: Cloud, word: str) -> Change:
    """Return a function that applies the topic's properties by a change set, as `cdk deploy` does."""
    stacks = cloud.client("cloudformation")

    def apply(kind: str, properties: dict[str, str]) -> None:
        topic = {"Type": "AWS::SNS::Topic", "Properties": properties}
        named = {"StackName": word, "ChangeSetName": f"{kind.lower()}-{len(properties)}"}
        template = json.dumps({"Resources": {"Topic": topic}})
        stacks.create_change_set(**named, ChangeSetType=kind, TemplateBody=template)
        stacks.get_waiter("change_set_create_complete").wait(**named, WaiterConfig={"Delay": 1})
        stacks.execute_change_set(**named)
        stacks.get_waiter(f"stack_{kind.lower()}_complete").wait(StackName=word, WaiterConfig={"Delay": 1})

    return apply


def events(cloud: Cloud, stack: str) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {"stack": [], "Topic": []}
    for event in reversed(
        cloud.client("cloudformation").describe_stack_events(StackName=stack)["StackEvents"]
    ):
        name = event["LogicalResourceId"] if event["LogicalResourceId"] == "Topic" else "stack"
        found[name].append((event["ResourceStatus"], event.get("ResourceStatusReason") or ""))
    return found


def test_a_new_stack_and_an_update(cloud: Cloud, word: str, change: Change) -> None:
    change("CREATE", {})
    assert events(cloud, word) == CREATED
    change("UPDATE", {"DisplayName": "new"})
    updated = [("UPDATE_IN_PROGRESS", ""), ("UPDATE_COMPLETE", "")]
    assert events(cloud, word) == {"stack": CREATED["stack"] + UPDATED, "Topic": CREATED["Topic"] + updated}


def test_a_replaced_resource(cloud: Cloud, word: str, change: Change) -> None:
    change("CREATE", {})
    change("UPDATE", {"TopicName": word})
    replaced = [("UPDATE_IN_PROGRESS", REPLACED), ("UPDATE_IN_PROGRESS", INITIATED), ("UPDATE_COMPLETE", "")]
    assert events(cloud, word) == {
        "stack": CREATED["stack"] + UPDATED,
        "Topic": CREATED["Topic"] + replaced + DELETED,
    }


def test_resources_that_an_update_adds_and_removes(cloud: Cloud, word: str) -> None:
    stacks = cloud.client("cloudformation")
    topic = {"Type": "AWS::SNS::Topic"}
    stacks.create_stack(StackName=word, TemplateBody=json.dumps({"Resources": {"Topic": topic}}))
    stacks.get_waiter("stack_create_complete").wait(StackName=word, WaiterConfig={"Delay": 1})
    stacks.update_stack(StackName=word, TemplateBody=json.dumps({"Resources": {"Other": topic}}))
    stacks.get_waiter("stack_update_complete").wait(StackName=word, WaiterConfig={"Delay": 1})
    shown = [
        (event["LogicalResourceId"], event["ResourceStatus"], bool(event["PhysicalResourceId"]))
        for event in reversed(stacks.describe_stack_events(StackName=word)["StackEvents"])
    ]
    assert shown[shown.index((word, "UPDATE_IN_PROGRESS", True)) :] == [
        (word, "UPDATE_IN_PROGRESS", True),
        ("Other", "CREATE_IN_PROGRESS", False),
        ("Other", "CREATE_IN_PROGRESS", True),
        ("Other", "CREATE_COMPLETE", True),
        (word, CLEANUP, True),
        ("Topic", "DELETE_IN_PROGRESS", True),
        ("Topic", "DELETE_COMPLETE", True),
        (word, "UPDATE_COMPLETE", True),
    ]
    (left,) = stacks.describe_stack_resources(StackName=word)["StackResources"]
    assert (left["LogicalResourceId"], left["ResourceStatus"]) == ("Other", "CREATE_COMPLETE")
