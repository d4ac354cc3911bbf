"""Checks of exports between stacks: imported exports cannot change or disappear, and names are unique.

An import of a missing export fails. ministack checks only in DeleteStack. As on AWS, a refused update or creation ends
after its resources, with a rollback.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ministack.services import cloudformation
from ministack.services.cloudformation import handlers, stacks
from ministack.services.cloudformation.helpers import _p, _xml

from localcloud.patches import MINISTACK

OUTPUTS = "services.cloudformation.stacks:_resolve_stack_outputs"
ACTIONS = "services.cloudformation.handlers:_ACTION_HANDLERS"
RESOLVERS = ("services.cloudformation.engine:_resolve_refs", "services.cloudformation.stacks:_resolve_refs")
WITHOUT_RESOURCES = ("DELETE_COMPLETE", "REVIEW_IN_PROGRESS")

Stack = dict[str, Any]


def install() -> None:
    """Check a stack's exports before they are stored, and its imports when they are resolved."""
    stock_outputs, stock_resolve = MINISTACK.stock(OUTPUTS), MINISTACK.stock(RESOLVERS[0])
    stock_delete = MINISTACK.stock(ACTIONS)["DeleteStack"]

    def outputs(*given: Any) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
        outputs, exported = stock_outputs(*given)
        stack_id = given[-1]
        check(stack_id, [output["ExportName"] for output in outputs if "ExportName" in output], exported)
        for name in _exported_by(stack_id) - set(exported):
            cloudformation._exports.pop(name)
        return outputs, exported

    def resolve(value: Any, *given: Any) -> Any:
        if isinstance(value, dict) and set(value) == {"Fn::ImportValue"}:
            name = str(stock_resolve(value["Fn::ImportValue"], *given))
            if name not in cloudformation._exports:
                raise ValueError(f"No export named {name} found.")
        return stock_resolve(value, *given)

    def delete(params: Mapping[str, Any]) -> Any:
        stack = handlers._resolve_stack(_p(params, "StackName"))
        if (
            stack is None
            or stack["StackStatus"] in WITHOUT_RESOURCES
            or stack.get("EnableTerminationProtection")
        ):
            return stock_delete(params)
        refusal = next(_in_use(_exported_by(stack["StackId"]), "deleted"), "")
        stack["StackStatusReason"] = refusal
        return _stays(stack) if refusal else stock_delete(params)

    MINISTACK.replace(OUTPUTS, outputs)
    for name in RESOLVERS:
        MINISTACK.replace(name, resolve)
    MINISTACK.extend(ACTIONS, {"DeleteStack": delete})


def check(stack_id: str, names: list[str], exported: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise ValueError in AWS's words if a stack may not have these exports now."""
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"Duplicate Export names: [{', '.join(twice)}]")
    for name in exported:
        of_another = cloudformation._exports.get(name)
        if of_another is not None and of_another["StackId"] != stack_id:
            raise ValueError(
                f"Export with name {name} is already exported by stack {_name_of(of_another['StackId'])}"
            )
    before = _exported_by(stack_id)
    changed = {
        name
        for name in before & set(exported)
        if cloudformation._exports[name]["Value"] != exported[name]["Value"]
    }
    for refusal in (*_in_use(changed, "updated"), *_in_use(before - set(exported), "deleted")):
        raise ValueError(refusal)


def _in_use(names: Iterable[str], refused: str) -> Iterator[str]:
    """Yield AWS's message for each of these exports that another stack imports.

    A stack imports until its deletion ends.
    """
    for name in sorted(names):
        users = [
            other
            for other, stack in sorted(cloudformation._stacks.items())
            if stack["StackStatus"] not in WITHOUT_RESOURCES
            and name in handlers._imported_export_names(stack, other)
        ]
        if users:
            yield f"Export {name} cannot be {refused} as it is in use by {' and '.join(users)}"


def _exported_by(stack_id: str) -> set[str]:
    return {name for name, export in cloudformation._exports.items() if export["StackId"] == stack_id}


def _name_of(stack_id: str) -> str:
    return stack_id.split("/")[1]


def _stays(stack: Stack) -> Any:
    """Answer DeleteStack as always, but keep the stack's status and record the reason in an event."""
    stacks._add_event(
        stack["StackId"],
        stack["StackName"],
        stack["StackName"],
        "AWS::CloudFormation::Stack",
        stack["StackStatus"],
        stack["StackStatusReason"],
        stack["StackId"],
    )
    return _xml(200, "DeleteStackResponse", "")
