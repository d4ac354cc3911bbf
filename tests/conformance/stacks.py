"""Stacks: change sets, stack statuses and resource events of recorded deployments, run again.

A recording has no template. AWS describes each change with the resource's properties, and these make the template.
"""

from __future__ import annotations

import json
import re
import time
import uuid
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from botocore.exceptions import ClientError

from tests.conformance.clients import Clients
from tests.conformance.likeness import short
from tests.conformance.recordings import Oracle, Recording
from tests.conformance.result import Result, Verdict

Template = Mapping[str, Mapping[str, Any]]
"""Resources by logical ID."""
KINDS = frozenset(
    {
        "AWS::DynamoDB::Table",
        "AWS::IAM::Role",
        "AWS::Logs::LogGroup",
        "AWS::S3::Bucket",
        "AWS::SNS::Topic",
        "AWS::SQS::Queue",
        "AWS::SSM::Parameter",
    }
)
"""Kinds of resources of a yard's templates whose recorded properties are complete."""
NAMES = ("BucketName", "LogGroupName", "Name", "QueueName", "RoleName", "TableName", "TopicName")
ANY_REASON = "resource-status-reason"
"""The place of a reason that differs each time."""
UNKNOWN = re.compile(r"\{\{changeSet:|<[a-z-]+(:\d+)?>")
"""A value that the recording does not contain."""
SECONDS, AT_ONCE = 60.0, 4


@dataclass(frozen=True)
class Case:
    """A stack that was created and updated on AWS by change sets, and deleted."""

    name: str
    templates: list[Template]
    statuses: list[str]
    changes: list[list[tuple[str, ...]]]
    events: Mapping[str, list[tuple[str, str]]]


def run(oracle: Oracle, clients: Clients) -> Iterator[Result]:
    """Deploy each recorded stack again."""
    clients.of("cloudformation")
    found = [_case(each) for each in oracle.of("cloudformation") if "per-resource-events" in each.content]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        yield from threads.map(lambda each: _compared(each, clients), found)


def _compared(case: Case | Result, clients: Clients) -> Result:
    if isinstance(case, Result):
        return case
    name = f"conformance-{uuid.uuid4().hex[:8]}"
    stacks = clients.of("cloudformation")
    found: list[str] = []
    try:
        for number, template in enumerate(case.templates):
            changes, status = _apply(stacks, name, template, number)
            found += _unlike(f"changes {number + 1}", changes, case.changes[number])
            found += _unlike(f"status {number + 1}", status, case.statuses[number])
        arn = stacks.describe_stacks(StackName=name)["Stacks"][0]["StackId"]
        stacks.delete_stack(StackName=name)
        _wait(stacks, arn)
        events = _events(stacks.describe_stack_events(StackName=arn)["StackEvents"])
    except ClientError as refused:
        return Result(
            "stacks", "cloudformation", "local cloud", case.name, Verdict.STRICTER, str(refused)[:300]
        )
    for resource, recorded in case.events.items():
        found += _unlike(resource, _as_recorded(events.get(resource, []), recorded), recorded)
    verdict = Verdict.WRONG if found else Verdict.SAME
    return Result("stacks", "cloudformation", "local cloud", case.name, verdict, "; ".join(found)[:600])


def _as_recorded(ours: list[tuple[str, str]], recorded: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the events that a recording has: some end before the stack's deletion, and some have no reasons."""
    if not any(why for _, why in recorded):
        ours = [(status, "") for status, _ in groupby(status for status, _ in ours)]
    ours = ours[: len(recorded)]
    reasons = [why for _, why in recorded] + [""] * len(ours)
    return [
        (status, ANY_REASON if reasons[number] == ANY_REASON else why)
        for number, (status, why) in enumerate(ours)
    ]


def _unlike(what: str, ours: Any, recorded: Any) -> list[str]:
    if ours == recorded:
        return []
    if isinstance(ours, list):
        extra, missing = (
            [each for each in one if each not in other] for one, other in ((ours, recorded), (recorded, ours))
        )
        return [f"{what}: {len(ours)} with {short(extra)}, AWS {len(recorded)} with {short(missing)}"]
    return [f"{what}: {short(ours)}, AWS {short(recorded)}"]


def _apply(stacks: Any, name: str, template: Template, number: int) -> tuple[list[tuple[str, ...]], str]:
    change = {"StackName": name, "ChangeSetName": f"change-{number}"}
    body = json.dumps({"Resources": template})
    stacks.create_change_set(
        **change,
        TemplateBody=body,
        ChangeSetType="UPDATE" if number else "CREATE",
        Capabilities=["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM"],
    )
    _until(lambda: stacks.describe_change_set(**change)["Status"] in ("CREATE_COMPLETE", "FAILED"))
    described = stacks.describe_change_set(**change)
    stacks.execute_change_set(**change)
    return _changes(described), _wait(stacks, name)


def _wait(stacks: Any, name: str) -> str:
    def status() -> str:
        return str(stacks.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"])

    _until(lambda: not status().endswith("_IN_PROGRESS"))
    return status()


def _until(is_done: Any) -> None:
    deadline = time.monotonic() + SECONDS
    while not is_done() and time.monotonic() < deadline:
        time.sleep(0.2)


# ------------------------------------------------------------------------------------------------- the recordings


def _case(recording: Recording) -> Case | Result:
    name = f"{recording.file.name.partition('.')[0]}/{recording.test}"
    content = recording.content
    sets = sorted(key for key in content if re.fullmatch(r"describe-change-set-\d+-prop-values", key))
    described = [content[key.removesuffix("-prop-values")] for key in sets]
    templates: list[Template] = []
    for key in sets:
        templates.append(_template(templates[-1] if templates else {}, content[key]))
    kinds = {each["Type"] for template in templates for each in template.values()}
    reason = ""
    if kinds - KINDS:
        reason = "resources of kinds that no yard has"
    elif (
        not sets
        or not all(content[key].get("Changes") for key in sets)
        or UNKNOWN.search(json.dumps(templates))
    ):
        reason = "a template that the recording does not contain"
    if reason:
        return Result("stacks", "cloudformation", "local cloud", name, Verdict.UNUSED, reason)
    statuses = [
        str(content[f"post-create-{number}-describe"]["StackStatus"]) for number in range(1, len(sets) + 1)
    ]
    events = {
        resource: _in_order(found)
        for resource, found in content["per-resource-events"].items()
        if resource in {name for template in templates for name in template}
    }
    suffix = f"{zlib.crc32(name.encode()):08x}"
    templates = [_renamed(each, suffix) for each in templates]
    return Case(name, templates, statuses, [_changes(each) for each in described], events)


def _template(before: Template, described: Mapping[str, Any]) -> Template:
    """Return the resources after the changes."""
    after = dict(before)
    for change in described.get("Changes") or ():
        about = change["ResourceChange"]
        if about["Action"] == "Remove":
            after.pop(about["LogicalResourceId"], None)
            continue
        context = about.get("AfterContext") or {}
        context = json.loads(context) if isinstance(context, str) else context
        after[about["LogicalResourceId"]] = {"Type": about["ResourceType"], **context}
    return after


def _renamed(template: Template, suffix: str) -> Template:
    """Give each named resource a name of its own, because other cases use the same names."""
    return {
        logical_id: {
            **about,
            "Properties": {
                key: f"{value}-{suffix}" if key in NAMES and isinstance(value, str) else value
                for key, value in (about.get("Properties") or {}).items()
            },
        }
        for logical_id, about in template.items()
    }


def _changes(described: Mapping[str, Any]) -> list[tuple[str, ...]]:
    fields = ("LogicalResourceId", "Action", "ResourceType", "Replacement")
    changes = (each["ResourceChange"] for each in described.get("Changes") or ())
    return sorted(tuple(str(each.get(field, "")) for field in fields) for each in changes)


def _events(events: list[Mapping[str, Any]]) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for event in reversed(events):
        found.setdefault(str(event["LogicalResourceId"]), []).append(event)
    return {resource: _in_order(each) for resource, each in found.items()}


def _in_order(events: list[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return status and reason of the events with a physical ID, the first one first."""
    found = [
        (str(each["ResourceStatus"]), str(each.get("ResourceStatusReason") or ""))
        for each in events
        if each.get("PhysicalResourceId")
    ]
    return found if found[:1] and found[0][0] == "CREATE_IN_PROGRESS" else found[::-1]
