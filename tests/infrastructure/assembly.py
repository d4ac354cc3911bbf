"""A synthesized assembly, in terms of functions, roles and permissions."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulation.template import read_templates

HERE = "{AWS::Region}:{AWS::AccountId}"
NAMED = {
    "AWS::Lambda::Function": ("FunctionName", f"lambda:{HERE}:function:", "Arn"),
    "AWS::StepFunctions::StateMachine": ("StateMachineName", f"states:{HERE}:stateMachine:", ""),
    "AWS::SQS::Queue": ("QueueName", f"sqs:{HERE}:", "Arn"),
    "AWS::SNS::Topic": ("TopicName", f"sns:{HERE}:", ""),
}
"""For each type: the property with the name, the beginning of the ARN, and the attribute that is the ARN (none:
Ref)."""


@dataclass(frozen=True)
class Resource:
    stack: str
    name: str
    type: str
    properties: dict[str, Any]
    whole: dict[str, Any]


@dataclass(frozen=True)
class Permission:
    """One action on one resource that a role may use."""

    action: str
    resource: str
    when: dict[str, Any]
    """The condition of the statement."""


@dataclass(frozen=True)
class Assembly:
    folder: Path
    templates: dict[str, dict[str, Any]]

    @classmethod
    def read(cls, folder: Path) -> "Assembly":
        """Read the templates. References replace imports from other stacks and ARNs made of names."""
        templates = read_templates(folder)
        outputs = [each for template in templates.values() for each in template.get("Outputs", {}).values()]
        exports = {each["Export"]["Name"]: each["Value"] for each in outputs if "Export" in each}
        read = cls(folder, {name: _imported(template, exports) for name, template in templates.items()})
        named = dict(read.named())
        return cls(folder, {name: _referred(template, named) for name, template in read.templates.items()})

    def named(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the ARN as text and the reference of everything that the yard names."""
        for kind, (key, service, attribute) in NAMED.items():
            for each in self.resources(kind):
                name = each.properties[key]
                refers = {"Fn::GetAtt": [each.name, attribute]} if attribute else {"Ref": each.name}
                yield f"arn:{{AWS::Partition}}:{service}{name}", refers

    def resources(self, kind: str) -> list[Resource]:
        return [resource for resource in self.all() if resource.type == kind]

    def all(self) -> Iterator[Resource]:
        for stack, template in self.templates.items():
            for name, whole in template.get("Resources", {}).items():
                yield Resource(stack, name, whole["Type"], whole.get("Properties", {}), whole)

    @property
    def functions(self) -> dict[str, Resource]:
        """Return the functions by word: `train_launch`, `bake_launch`, ... Several may share a handler."""
        return {
            resource.properties["FunctionName"].partition("-")[2].replace("-", "_"): resource
            for resource in self.resources("AWS::Lambda::Function")
        }

    def module_of(self, function: str) -> str:
        """Return the handler's module in `lambdas.workflows`: `train.launch` for both."""
        handler: str = self.functions[function].properties["Handler"]
        return handler.removeprefix("lambdas.workflows.").removesuffix(".handler")

    def role_of(self, function: str) -> str:
        role: str = self.functions[function].properties["Role"]["Fn::GetAtt"][0]
        return role

    def statements(self, role: str) -> list[dict[str, Any]]:
        return [
            statement
            for policy in self.resources("AWS::IAM::Policy")
            if {"Ref": role} in policy.properties["Roles"]
            for statement in policy.properties["PolicyDocument"]["Statement"]
        ]

    def permissions(self, role: str) -> list[Permission]:
        return list(permissions_in(self.statements(role)))

    @property
    def roles(self) -> list[str]:
        return [role.name for role in self.resources("AWS::IAM::Role")]

    def may(self, action: str) -> set[str]:
        """Return the roles with this permission, without the hash at the end of their names."""
        return {
            role[:-8]
            for role in self.roles
            if any(permission.action == action for permission in self.permissions(role))
        }


def permissions_in(statements: Iterable[dict[str, Any]]) -> Iterator[Permission]:
    """Yield the permissions of these statements."""
    for statement in statements:
        if statement["Effect"] == "Allow":
            for action in as_list(statement["Action"]):
                for resource in as_list(statement["Resource"]):
                    yield Permission(action, text(resource), plain(statement.get("Condition", {})))


def _imported(value: Any, exports: dict[str, Any]) -> Any:
    match value:
        case {"Fn::ImportValue": name}:
            return exports[name]
        case dict():
            return {key: _imported(each, exports) for key, each in value.items()}
        case list():
            return [_imported(each, exports) for each in value]
        case _:
            return value


def _referred(value: Any, named: dict[str, dict[str, Any]]) -> Any:
    match value:
        case {"Fn::Join": ["", [*parts]]} if all(_is_plain(part) for part in parts) and text(value) in named:
            return named[text(value)]
        case dict():
            return {key: _referred(each, named) for key, each in value.items()}
        case list():
            return [_referred(each, named) for each in value]
        case _:
            return value


def _is_plain(part: Any) -> bool:
    return isinstance(part, str) or str(part.get("Ref", "")).startswith("AWS::")


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def text(value: Any) -> str:
    """Return a template's value as a readable text: `{Name}` for a reference, `{Name.Arn}` for an attribute."""
    match value:
        case str():
            return value
        case {"Ref": name}:
            return f"{{{name}}}"
        case {"Fn::GetAtt": [name, attribute]}:
            return f"{{{name}.{attribute}}}"
        case {"Fn::Join": [separator, parts]}:
            return str(separator).join(text(part) for part in parts)
        case {"Fn::Sub": template}:
            return str(template)
        case _:
            raise ValueError(f"nothing known about {value!r}")


def plain(value: Any) -> Any:
    """Return a whole tree with `text` for each value."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict) and not any(key == "Ref" or key.startswith("Fn::") for key in value):
        return {key: plain(item) for key, item in value.items()}
    return text(value) if isinstance(value, dict) else value
