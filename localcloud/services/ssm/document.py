"""An SSM document: its parameters and steps, without hosts or requests.

Command documents have schema 2.2, session documents 1.0 (docs.aws.amazon.com/systems-manager/latest/userguide, "Session
document schema").
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from localcloud.base.run_command import DEFAULT_STEP, matches, step_timeout

LARGEST = 64 * 1024
PARAMETER_TYPES = {"String", "StringList", "Boolean", "Integer", "MapList", "StringMap"}
SHELL = "aws:runShellScript"
REFERENCE = re.compile(r"\{\{\s*([\w.:/-]+)\s*\}\}")
SESSION = "Session"
PORT = "Port"
SESSION_TYPES = ("Standard_Stream", PORT, "InteractiveCommands", "NonInteractiveCommands")

Values = dict[str, list[str]]


class SsmError(Exception):
    """An error of SSM."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


@dataclass(frozen=True)
class Parameter:
    """A parameter of a document."""

    name: str
    type: str
    default: list[str] | None
    as_environment: bool
    """interpolationType ENV_VAR: the value is passed as $SSM_<name> and never inserted into the script."""
    allowed_pattern: str | None
    allowed_values: tuple[str, ...] | None
    description: str
    min_chars: int
    max_chars: int | None

    def fault(self, values: list[str]) -> str | None:
        """Return the error in these values, or None."""
        if self.type != "StringList" and len(values) != 1:
            return f"Parameter {self.name} takes one value, got {len(values)}"
        for value in values:
            if self.allowed_values is not None and value not in self.allowed_values:
                return f"Parameter {self.name} value {value!r} is not one of {', '.join(self.allowed_values)}"
            if self.allowed_pattern is not None and not matches(self.allowed_pattern, value):
                return (
                    f"Parameter {self.name} value {value!r} does not match the pattern {self.allowed_pattern}"
                )
            if len(value) < self.min_chars or (self.max_chars is not None and len(value) > self.max_chars):
                return (
                    f"Parameter {self.name} has {len(value)} characters, outside of what the document allows"
                )
        return None


@dataclass(frozen=True)
class Step:
    """A step of a document, before parameters are inserted."""

    name: str
    action: str
    inputs: Mapping[str, Any]
    precondition: Mapping[str, list[str]]


@dataclass(frozen=True)
class Script:
    """A step ready to run. `skipped` is the reason to skip it."""

    name: str
    action: str
    text: str
    env: Mapping[str, str]
    cwd: str
    timeout: float
    skipped: str | None
    on_failure_exit: bool
    on_success_exit: bool
    is_final: bool


@dataclass(frozen=True)
class SessionDocument:
    """A session document: type, preferences (`inputs`) and purpose (`properties`)."""

    type: str
    inputs: Mapping[str, Any]
    properties: Mapping[str, Any]


@dataclass(frozen=True)
class Document:
    """One version of a document. Session documents have no steps."""

    description: str
    schema_version: str
    parameters: Mapping[str, Parameter]
    steps: tuple[Step, ...]
    session: SessionDocument | None = None

    @property
    def platforms(self) -> list[str]:
        return (
            ["Linux"] if any(step.action == SHELL for step in self.steps) else ["Windows", "Linux", "MacOS"]
        )

    def check(self, given: Mapping[str, Any]) -> Values:
        """Return the values for the steps, or raise InvalidParameters."""
        values: Values = {}
        unknown = sorted(given.keys() - self.parameters.keys())
        if unknown:
            raise SsmError(
                "InvalidParameters", f"Parameters not defined in the document: {', '.join(unknown)}"
            )
        for name, parameter in self.parameters.items():
            found = given.get(name, parameter.default)
            if found is None:
                raise SsmError("InvalidParameters", f"Parameter {name} is required and has no default")
            values[name] = [found] if isinstance(found, str) else [text_of(value) for value in found]
            fault = parameter.fault(values[name])
            if fault is not None:
                raise SsmError("InvalidParameters", fault)
        return values

    def properties(self, values: Values) -> dict[str, Any]:
        """Return the session's properties with these checked values inserted."""
        assert self.session is not None

        def filled(found: Any) -> Any:
            if isinstance(found, str):
                return self._fill(found, values, in_shell=False)
            if isinstance(found, dict):
                return {key: filled(value) for key, value in found.items()}
            return [filled(each) for each in found] if isinstance(found, list) else found

        return {key: filled(value) for key, value in self.session.properties.items()}

    def scripts(self, values: Values) -> tuple[Script, ...]:
        """Return the steps with these checked values inserted, as the agent runs them."""
        env = {f"SSM_{name}": join_values(values[name], parameter) for name, parameter in self.parameters.items()
               if parameter.as_environment}  # fmt: skip
        return tuple(self._script(step, values, env) for step in self.steps)

    def _script(self, step: Step, values: Values, env: Mapping[str, str]) -> Script:
        def filled(key: str, default: str = "") -> str:
            return self._fill(text_of(step.inputs.get(key, default)), values, in_shell=False)

        return Script(
            name=step.name,
            action=step.action,
            text="\n".join(self._lines(step.inputs.get("runCommand", []), values)),
            env=env,
            cwd=filled("workingDirectory") or "/",
            timeout=step_timeout(filled("timeoutSeconds", str(DEFAULT_STEP))),
            skipped=self._why_skipped(step, values),
            on_failure_exit=filled("onFailure") == "exit",
            on_success_exit=filled("onSuccess") == "exit",
            is_final=filled("finallyStep").lower() == "true",
        )

    def _lines(self, run_command: Any, values: Values) -> list[str]:
        lines: list[str] = []
        for line in [run_command] if isinstance(run_command, str) else run_command:
            whole = REFERENCE.fullmatch(str(line).strip())
            parameter = self.parameters.get(whole[1]) if whole else None
            if parameter is not None and parameter.type == "StringList" and not parameter.as_environment:
                lines += values[parameter.name]
            else:
                lines.append(self._fill(str(line), values, in_shell=True))
        return lines

    def _fill(self, text: str, values: Values, *, in_shell: bool) -> str:
        def value(match: re.Match[str]) -> str:
            parameter = self.parameters.get(match[1])
            if parameter is None:
                return match[0]
            if parameter.as_environment and in_shell:
                return f"${{SSM_{parameter.name}}}"
            return join_values(values[parameter.name], parameter)

        return REFERENCE.sub(value, text)

    def _why_skipped(self, step: Step, values: Values) -> str | None:
        for left, right in step.precondition.values():
            sides = [self._fill(side, values, in_shell=False) for side in (left, right)]
            sides = ["Linux" if side == "platformType" else side for side in sides]
            if sides[0] != sides[1]:
                return f"Step execution skipped due to incompatible platform. Step name: {step.name}"
        return None


def text_of(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else json.dumps(value)


def join_values(values: list[str], parameter: Parameter) -> str:
    return json.dumps(values) if parameter.type == "StringList" else values[0]


def parse(content: str, written_in: str = "JSON") -> Document:
    """Parse a document. Raise CreateDocument's errors."""
    if len(content.encode()) > LARGEST:
        raise SsmError("MaxDocumentSizeExceeded", "The size limit of a document is 64 KB.")
    try:
        document = yaml.safe_load(content) if written_in == "YAML" else json.loads(content)
    except (yaml.YAMLError, ValueError) as error:
        raise SsmError("InvalidDocumentContent", f"{written_in} not well-formed. {error}") from error
    if not isinstance(document, dict):
        raise SsmError("InvalidDocumentContent", "The document is not an object.")
    version = str(document.get("schemaVersion", ""))
    if version == "1.0" and "sessionType" in document:
        return _session(document)
    if version not in ("2.0", "2.2"):
        raise SsmError(
            "InvalidDocumentSchemaVersion", f"schemaVersion {version!r} is not supported here, only 2.2."
        )
    unknown = document.keys() - {
        "schemaVersion",
        "description",
        "parameters",
        "mainSteps",
        "outputs",
        "files",
    }
    if unknown:
        raise SsmError("InvalidDocumentContent", f"Unknown fields: {', '.join(sorted(unknown))}.")
    parameters = {
        name: _parameter(name, definition) for name, definition in (document.get("parameters") or {}).items()
    }
    steps = tuple(_step(step) for step in document.get("mainSteps") or [])
    if not steps:
        raise SsmError("InvalidDocumentContent", "The document has no mainSteps.")
    if len({step.name for step in steps}) < len(steps):
        raise SsmError("InvalidDocumentContent", "Two steps have the same name.")
    _check_references(document, parameters)
    return Document(str(document.get("description", "")), version, parameters, steps)


def _session(document: dict[str, Any]) -> Document:
    known = {"schemaVersion", "description", "sessionType", "parameters", "inputs", "properties"}
    if unknown := document.keys() - known:
        raise SsmError("InvalidDocumentContent", f"Unknown fields: {', '.join(sorted(unknown))}.")
    kind = document["sessionType"]
    if kind not in SESSION_TYPES:
        raise SsmError(
            "InvalidDocumentContent", f"sessionType {kind!r} is not one of {', '.join(SESSION_TYPES)}."
        )
    parts = {name: document.get(name) or {} for name in ("parameters", "inputs", "properties")}
    if wrong := [name for name, part in parts.items() if not isinstance(part, dict)]:
        raise SsmError("InvalidDocumentContent", f"{wrong[0]} is not an object.")
    parameters = {name: _parameter(name, definition) for name, definition in parts["parameters"].items()}
    used = set(REFERENCE.findall(json.dumps(parts["properties"])))
    if undefined := sorted(used - parameters.keys()):
        raise SsmError("InvalidDocumentContent", f"Parameters used but not defined: {', '.join(undefined)}.")
    for name, most in (("idleSessionTimeout", 60), ("maxSessionDuration", 1440)):
        given = str(parts["inputs"].get(name) or "")
        if given and not (given.isdigit() and 1 <= int(given) <= most):
            raise SsmError("InvalidDocumentContent", f"{name} is {given!r}; it is 1 to {most} minutes.")
    session = SessionDocument(kind, parts["inputs"], parts["properties"])
    return Document(str(document.get("description", "")), "1.0", parameters, (), session)


def _parameter(name: str, definition: Any) -> Parameter:
    if not isinstance(definition, dict) or definition.get("type") not in PARAMETER_TYPES:
        raise SsmError(
            "InvalidDocumentContent", f"Parameter {name} needs a type of {', '.join(PARAMETER_TYPES)}."
        )
    kind = definition.get("interpolationType", "PLAIN_TEXT")
    if kind not in ("PLAIN_TEXT", "ENV_VAR"):
        raise SsmError("InvalidDocumentContent", f"Parameter {name}: no interpolationType {kind!r}.")
    pattern = definition.get("allowedPattern")
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise SsmError("InvalidDocumentContent", f"Parameter {name}: allowedPattern: {error}.") from error
    default = definition.get("default")
    listed = [text_of(value) for value in default] if isinstance(default, list) else [text_of(default)]
    allowed = definition.get("allowedValues")
    return Parameter(
        name=name,
        type=definition["type"],
        default=None if default is None else listed,
        as_environment=kind == "ENV_VAR",
        allowed_pattern=pattern,
        allowed_values=None if allowed is None else tuple(text_of(value) for value in allowed),
        description=str(definition.get("description", "")),
        min_chars=int(definition.get("minChars", 0)),
        max_chars=int(definition["maxChars"]) if "maxChars" in definition else None,
    )


def _step(definition: Any) -> Step:
    if not isinstance(definition, dict) or not definition.get("action") or not definition.get("name"):
        raise SsmError("InvalidDocumentContent", "Every step needs an action and a name.")
    inputs = definition.get("inputs") or {}
    if definition["action"] == SHELL and "runCommand" not in inputs:
        raise SsmError("InvalidDocumentContent", f"Step {definition['name']}: runCommand is missing.")
    precondition = definition.get("precondition") or {}
    if set(precondition) - {"StringEquals"} or any(len(sides) != 2 for sides in precondition.values()):
        raise SsmError(
            "InvalidDocumentContent", f"Step {definition['name']}: not a precondition: {precondition}."
        )
    return Step(str(definition["name"]), str(definition["action"]), inputs, precondition)


def _check_references(document: dict[str, Any], parameters: Mapping[str, Parameter]) -> None:
    used = set(REFERENCE.findall(json.dumps(document.get("mainSteps"))))
    undefined = sorted(name for name in used - parameters.keys() if ":" not in name)
    if undefined:
        raise SsmError("InvalidDocumentContent", f"Parameters used but not defined: {', '.join(undefined)}.")
