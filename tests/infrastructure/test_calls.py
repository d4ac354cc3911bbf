"""Each function may make exactly the AWS calls that its code can reach."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.infrastructure.assembly import Assembly

ROOT = Path(__file__).resolve().parents[2]
PREFIXES = {
    "cloudwatch": "cloudwatch",
    "ec2": "ec2",
    "lambda": "lambda",
    "s3": "s3",
    "scheduler": "scheduler",
    "sns": "sns",
    "ssm": "ssm",
    "stepfunctions": "states",
}
"""The services that functions call by module-level functions, with IAM's names. DynamoDB is called through a class."""
NAMED_OTHERWISE = {
    "lambda:Invoke": "lambda:InvokeFunction",
    "s3:CopyObject": "s3:PutObject",
    "s3:DeleteObjects": "s3:DeleteObject",
    "s3:ListObjectsV2": "s3:ListBucket",
}
OF_FILE_SYSTEMS = ("ec2:DescribeNetworkInterfaces", "ec2:DescribeSecurityGroups", "ec2:DescribeSubnets")
"""Calls of Admit for data on file systems, in a yard with the setting `file_systems`."""
NOT_NEEDED = {
    "bake_admit": {"ssm:GetParameters"},  # the login of a registry, which no recipe has
    "bake_launch": {"sns:Publish"},  # interruptions of bakes are not reported
    "bake_plan": {"ssm:GetParameter"},  # the row of a bake names its image
    "dev_host_conclude": {"ec2:DescribeInstances"},  # after a denial, if allowed
    "prepare": {"s3:GetObject"},  # objects are read by their version
    "submit": {"s3:GetObject"},
    "study_admit": {"ssm:GetParameters", *OF_FILE_SYSTEMS},  # the login of a registry, in a yard with one
    "train_admit": {"ssm:GetParameters", *OF_FILE_SYSTEMS},
    "train_await_hosts": {
        "s3:PutObject",
        "ssm:DescribeInstanceInformation",
        "ssm:SendCommand",
    },  # final reports give no order
}
"""Calls in the code of these functions that they never make."""
MADE_BY_AWS = {"ec2:CreateTags", "ec2:DeleteSnapshot", "ec2:RunInstances", "ssm:GetParameters"}
"""Permissions that CreateImage, DeregisterImage, CreateFleet and launch templates require of their caller."""
OF_READS = {"s3:GetObjectVersion", "s3:ListBucket"}
"""Permissions to read a version, and to get "not found" instead of "denied" for a missing object."""
BY_TOKEN = {"states:SendTaskFailure", "states:SendTaskHeartbeat", "states:SendTaskSuccess"}
"""Calls that lambdas/aws/states.py chooses by a name."""
Node = tuple[str, str]
"""A function or class: its module and its name."""


@cache
def module(name: str) -> tuple[dict[str, ast.AST], dict[str, Node]]:
    """Return the definitions of a module, and its imports of our modules: the module and the name there ("" for a
    module)."""
    path = ROOT / Path(*name.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    defined: dict[str, ast.AST] = {}
    imported: dict[str, Node] = {}
    for node in ast.parse(path.read_text()).body:
        match node:
            case ast.FunctionDef() | ast.ClassDef():
                defined[node.name] = node
            case ast.Assign(targets=[ast.Name(id=target)]):
                defined[target] = node
            case ast.ImportFrom():
                imported |= imports_of(node)
            case _:
                pass
    return defined, imported


def imports_of(node: ast.ImportFrom) -> dict[str, Node]:
    source = node.module or ""
    found: dict[str, Node] = {}
    for each in node.names if source.startswith("lambdas") else ():
        folder = ROOT / Path(*source.split("."), each.name)
        is_module = folder.with_suffix(".py").exists() or folder.is_dir()
        found[each.asname or each.name] = (f"{source}.{each.name}", "") if is_module else (source, each.name)
    return found


def names_in(node: Node) -> Iterator[Node]:
    """Yield what a function or class refers to in its module and in imported ones."""
    defined, imported = module(node[0])
    parts = list(ast.walk(defined[node[1]]))
    for part in parts:
        if isinstance(part, ast.ImportFrom):  # made late, because it costs time
            imported = imported | imports_of(part)
    own = {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    own |= {part.arg for part in parts if isinstance(part, ast.arg)}
    for part in parts:
        match part:
            case ast.Name(id=name) if name in own:
                pass
            case ast.Name(id=name) if name in defined:
                yield node[0], name
            case ast.Name(id=name) if name in imported:
                yield imported[name]
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in imported:
                yield imported[name][0], attribute


def calls_in(node: Node) -> Iterator[str]:
    """Yield the AWS calls that a function of lambdas/aws makes itself, with IAM's names."""
    for part in ast.walk(module(node[0])[0][node[1]]):
        match part:
            case ast.Attribute(
                value=ast.Call(func=ast.Name(id="client"), args=[ast.Constant(value=str(service)), *_]),
                attr=operation,
            ):
                yield from action(service, operation)
            case ast.Call(
                func=ast.Attribute(
                    value=ast.Call(func=ast.Name(id="client"), args=[ast.Constant(value=str(service)), *_]),
                    attr="get_paginator",
                ),
                args=[ast.Constant(value=str(operation))],
            ):
                yield from action(service, operation)
            case ast.Call(
                func=ast.Name(id="list_items"),
                args=[ast.Constant(value=str(service)), ast.Constant(value=str(operation)), *_],
            ):
                yield from action(service, operation)


def action(service: str, operation: str) -> Iterator[str]:
    if service in PREFIXES and operation != "get_paginator":
        name = f"{PREFIXES[service]}:{''.join(word.capitalize() for word in operation.split('_'))}"
        yield NAMED_OTHERWISE.get(name, name)


def reached(handler: str) -> set[str]:
    todo: list[Node] = [(f"lambdas.workflows.{handler}", "handler")]
    seen: set[Node] = set()
    calls: set[str] = set()
    while todo:
        node = todo.pop()
        if node in seen or node[1] not in module(node[0])[0]:
            continue
        seen.add(node)
        if node[0].startswith("lambdas.aws"):
            calls.update(calls_in(node))
        todo.extend(names_in(node))
    return calls


def granted(yard: Assembly, function: str) -> set[str]:
    return {each.action for each in yard.permissions(yard.role_of(function))}


def test_each_function_may_make_the_calls_that_it_can_reach(yard: Assembly) -> None:
    missing = {name: reached(yard.module_of(name)) - granted(yard, name) for name in yard.functions}
    assert {name: calls for name, calls in missing.items() if calls} == NOT_NEEDED


def test_no_function_may_make_a_call_that_it_cannot_reach(yard: Assembly) -> None:
    left = {name: granted(yard, name) - reached(yard.module_of(name)) for name in yard.functions}
    of_services = {
        name: {call for call in calls if call.partition(":")[0] in PREFIXES.values()}
        for name, calls in left.items()
    }
    assert set().union(*of_services.values()) == MADE_BY_AWS | OF_READS | BY_TOKEN


@pytest.mark.parametrize(
    ("handler", "calls"),
    [
        (
            "snapshot.fate",
            {"ec2:StartInstances", "ec2:StopInstances", "ec2:TerminateInstances", "ec2:DescribeImages"},
        ),
        ("train.launch", {"ec2:CreateFleet", "ec2:CreateTags", "ec2:DescribeInstances"}),
        ("signal", {"states:StopExecution", "lambda:InvokeFunction", "ssm:SendCommand"}),
        ("bake.capture", {"ec2:CreateImage", "ec2:DeregisterImage"}),
    ],
)
def test_calls_are_found_through_every_layer(handler: str, calls: set[str]) -> None:
    assert calls <= reached(handler)


def test_recover_reaches_none() -> None:
    assert [reached(f"{workflow}.recover") for workflow in ("train", "bake", "dev_host")] == [
        set(),
        set(),
        set(),
    ]
