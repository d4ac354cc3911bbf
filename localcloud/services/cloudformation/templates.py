"""Templates that CloudFormation refuses before it creates anything. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

RESOURCE_KEYS = frozenset(
    [
        "Type",
        "Properties",
        "DependsOn",
        "Condition",
        "Metadata",
        "CreationPolicy",
        "UpdatePolicy",
        "DeletionPolicy",
        "UpdateReplacePolicy",
        "Description",
        "Fn::Transform",
    ]
)
SUBSTITUTED = re.compile(r"\$\{([^!}][^}]*)\}")
FORMAT = "Template format error:"
ERROR = "Template error:"


def fault(template: Any) -> str | None:
    """Return CloudFormation's message for the first error of a template. One with a transform is not checked."""
    if not isinstance(template, dict) or "Transform" in template:
        return None
    return next(_faults(template), None)


def parameter_fault(template: Mapping[str, Any], request: Mapping[str, Any]) -> str | None:
    """Return CloudFormation's message for parameters without a value, or with one that the template lacks."""
    known = template.get("Parameters") or {}
    given = {each.get("ParameterKey"): each for each in request.get("Parameters") or ()}
    missing = [name for name, about in known.items() if name not in given and "Default" not in about]
    if missing:
        return f"Parameters: [{', '.join(missing)}] must have values"
    foreign = [str(name) for name in given if name not in known]
    return f"Parameters: [{', '.join(foreign)}] do not exist in the template" if foreign else None


def _faults(template: Mapping[str, Any]) -> Iterator[str]:
    resources = template.get("Resources")
    if not resources:
        yield f"{FORMAT} At least one Resources member must be defined."
        return
    if not isinstance(resources, dict):
        yield f"{FORMAT} Any Resources member must be an object."
        return
    yield from _of_resources(resources)
    outputs, mappings = template.get("Outputs") or {}, template.get("Mappings") or {}
    yield from _of_outputs(outputs)
    yield from _of_mappings(mappings)
    for value in (template.get("Conditions"), resources, outputs):
        yield from _of_functions(value, template)
    if circle := _circle(resources):
        yield f"Circular dependency between resources: [{', '.join(circle)}]"
    for block, value in (("Resources", resources), ("Outputs", outputs)):
        names = {*resources, *(template.get("Parameters") or {})}
        missing = sorted({each for each in _references(value) if each not in names and "::" not in each})
        if missing:
            where = f"in the {block} block of the template"
            yield f"{FORMAT} Unresolved resource dependencies [{', '.join(missing)}] {where}"


def _circle(resources: Mapping[str, Any]) -> list[str]:
    """Return the resources that wait for each other, and those that wait for them."""
    waiting = {
        name: {each for each in _references({name: resource}) if each in resources}
        for name, resource in resources.items()
        if isinstance(resource, dict)
    }
    while free := [name for name, needed in waiting.items() if not needed & set(waiting)]:
        for name in free:
            del waiting[name]
    return sorted(waiting)


def output_fault(template: Mapping[str, Any], conditions: Mapping[str, bool]) -> str | None:
    """Return CloudFormation's message for an output of a resource whose condition does not hold."""
    resources = template.get("Resources") or {}
    absent = {name for name, each in resources.items() if not conditions.get(each.get("Condition"), True)}
    outputs = {
        name: each
        for name, each in (template.get("Outputs") or {}).items()
        if conditions.get(each.get("Condition"), True)
    }
    missing = sorted({each for each in _references(_chosen(outputs, conditions)) if each in absent})
    if not missing:
        return None
    return f"Unresolved resource dependencies [{', '.join(missing)}] in the Outputs block of the template"


def _chosen(value: Any, conditions: Mapping[str, bool]) -> Any:
    """Replace each Fn::If by the branch that its condition selects."""
    if isinstance(value, dict):
        match value.get("Fn::If"):
            case [str() as name, yes, no] if len(value) == 1:
                return _chosen(yes if conditions.get(name) else no, conditions)
        return {key: _chosen(each, conditions) for key, each in value.items()}
    return [_chosen(each, conditions) for each in value] if isinstance(value, list) else value


def _of_resources(resources: Mapping[str, Any]) -> Iterator[str]:
    for name, resource in resources.items():
        if name.startswith("Fn::"):
            continue
        if not isinstance(resource, dict):
            yield f"{FORMAT} Any Resources member must be an object."
            return
        for key in sorted(set(resource) - RESOURCE_KEYS):
            yield f"Invalid template resource property '{key}'"
        if "Type" not in resource:
            yield f"{FORMAT} [/Resources/{name}] Every Resources object must contain a Type member."


def _of_outputs(outputs: Mapping[str, Any]) -> Iterator[str]:
    for name, output in outputs.items():
        if not isinstance(output, dict) or "Value" not in output:
            yield f"{FORMAT} Every Outputs member must contain a Value object"
        elif output["Value"] is None:
            yield f"[/Outputs/{name}/Value] 'null' values are not allowed in templates"


def _of_mappings(mappings: Mapping[str, Any]) -> Iterator[str]:
    for mapping in mappings.values():
        for key, attributes in mapping.items():
            if not isinstance(attributes, dict):
                yield f"{FORMAT} Every Mappings member {key} must be a map"
            elif any(isinstance(each, dict) for each in attributes.values()):
                yield f"{FORMAT} Every Mappings attribute must be a String or a List."


def _of_functions(value: Any, template: Mapping[str, Any]) -> Iterator[str]:
    for name, given in _functions(value):
        match name:
            case "Fn::Equals" if not isinstance(given, list) or len(given) != 2:
                yield f"{ERROR} every Fn::Equals object requires a list of 2 string parameters."
            case "Fn::If" if isinstance(given, list) and given:
                if given[0] not in (template.get("Conditions") or {}):
                    yield f"{ERROR} unresolved condition dependency {given[0]} in Fn::If"
            case "Fn::GetAtt" if not _is_attribute(given):
                needed = "two non-empty parameters, the resource name and the resource attribute"
                yield f"{ERROR} every Fn::GetAtt object requires {needed}"
            case "Fn::Select" if not _is_selection(given):
                needed = "a list argument with two elements: an integer index and a list"
                yield f"{ERROR} Fn::Select requires {needed}"
            case "Fn::Split" if not isinstance(given, list) or len(given) != 2:
                needed = (
                    "two parameters, (1) a string delimiter and (2) a string to be split or a function that returns "
                    "a string to be split."
                )
                yield f"{ERROR} every Fn::Split object requires {needed}"
            case "Fn::FindInMap" if isinstance(given, list) and all(
                isinstance(each, str) for each in given[:3]
            ):
                found: Any = template.get("Mappings") or {}
                for key in given[:3]:
                    found = found.get(key) if isinstance(found, dict) else None
                if found is None and len(given) == 3:
                    yield f"{ERROR} Unable to get mapping for {'::'.join(given)}"
            case _:
                pass


def _is_attribute(given: Any) -> bool:
    if isinstance(given, str):
        return all(given.partition(".")[::2])
    return isinstance(given, list) and len(given) == 2 and all(given)


def _is_selection(given: Any) -> bool:
    if not isinstance(given, list) or len(given) != 2:
        return False
    index, items = given
    if isinstance(index, dict) or isinstance(items, dict):
        return isinstance(items, dict | list)
    is_number = str(index).isdigit()
    return is_number and isinstance(items, list) and int(index) < len(items)


def _functions(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the name and the argument of each intrinsic function."""
    if isinstance(value, dict):
        if len(value) == 1:
            name, given = next(iter(value.items()))
            if name == "Ref" or str(name).startswith("Fn::"):
                yield name, given
        for each in value.values():
            yield from _functions(each)
    elif isinstance(value, list):
        for each in value:
            yield from _functions(each)


def _references(block: Mapping[str, Any]) -> Iterator[str]:
    """Yield each resource or parameter that a block names."""
    for name, given in _functions(block):
        match name:
            case "Ref" if isinstance(given, str):
                yield given
            case "Fn::GetAtt" if isinstance(given, list) and isinstance(given[0], str):
                yield given[0]
            case "Fn::GetAtt" if isinstance(given, str):
                yield given.partition(".")[0]
            case "Fn::Sub":
                text, own = given if isinstance(given, list) else (given, {})
                names = (each.partition(".")[0].strip() for each in SUBSTITUTED.findall(str(text)))
                yield from (each for each in names if each not in own)
            case _:
                pass
    for resource in block.values():
        depends = resource.get("DependsOn") if isinstance(resource, dict) else None
        yield from depends if isinstance(depends, list) else [depends] if isinstance(depends, str) else []
