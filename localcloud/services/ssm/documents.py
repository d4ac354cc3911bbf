"""SSM documents: what they are, what they ask for, what they run. Nothing here knows hosts or requests.

Those of commands have schema 2.2, those of sessions 1.0 (docs.aws.amazon.com/systems-manager/latest/userguide,
"Session document schema").
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

LARGEST = 64 * 1024
LONGEST_STEP = 172800
DEFAULT_STEP = 3600
SHORTEST_STEP = 5
PARAMETER_TYPES = {"String", "StringList", "Boolean", "Integer", "MapList", "StringMap"}
SHELL = "aws:runShellScript"
REFERENCE = re.compile(r"\{\{\s*([\w.:/-]+)\s*\}\}")
SESSION = "Session"
PORT = "Port"
SESSION_TYPES = ("Standard_Stream", PORT, "InteractiveCommands", "NonInteractiveCommands")
NAME = re.compile(r"^[a-zA-Z0-9_\-.]{3,128}$")
RESERVED = re.compile(r"^(aws|amazon|amzn|AWS)", re.IGNORECASE)

Values = dict[str, list[str]]


class SsmError(Exception):
    """An error as SSM answers it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


@dataclass(frozen=True)
class Parameter:
    """One parameter a document takes."""

    name: str
    type: str
    default: list[str] | None
    as_environment: bool
    """interpolationType ENV_VAR: the value arrives as $SSM_<name> and is never pasted into the script."""
    allowed_pattern: str | None
    allowed_values: tuple[str, ...] | None
    description: str
    min_chars: int
    max_chars: int | None

    def fault(self, values: list[str]) -> str | None:
        """What is wrong with these values, or None."""
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
    """One step as the document says it, parameters not yet filled in."""

    name: str
    action: str
    inputs: Mapping[str, Any]
    precondition: Mapping[str, list[str]]


@dataclass(frozen=True)
class Script:
    """One step ready to run. `skipped` says why it must not run here."""

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
    """What a document says of a session: its type, its preferences (`inputs`), what it is for (`properties`)."""

    type: str
    inputs: Mapping[str, Any]
    properties: Mapping[str, Any]


@dataclass(frozen=True)
class Document:
    """What one version of a document says. Of a session it has no steps."""

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
        """The values the steps will see; raises InvalidParameters."""
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
        """Of a session: what it is for, with these (checked) values filled in."""
        assert self.session is not None

        def filled(found: Any) -> Any:
            if isinstance(found, str):
                return self._fill(found, values, in_shell=False)
            if isinstance(found, dict):
                return {key: filled(value) for key, value in found.items()}
            return [filled(each) for each in found] if isinstance(found, list) else found

        return {key: filled(value) for key, value in self.session.properties.items()}

    def scripts(self, values: Values) -> tuple[Script, ...]:
        """The steps with these (checked) values filled in, as the agent runs them."""
        env = {f"SSM_{name}": joined(values[name], parameter) for name, parameter in self.parameters.items()
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
            return joined(values[parameter.name], parameter)

        return REFERENCE.sub(value, text)

    def _why_skipped(self, step: Step, values: Values) -> str | None:
        for left, right in step.precondition.values():
            sides = [self._fill(side, values, in_shell=False) for side in (left, right)]
            sides = ["Linux" if side == "platformType" else side for side in sides]
            if sides[0] != sides[1]:
                return f"Step execution skipped due to incompatible platform. Step name: {step.name}"
        return None


def step_timeout(text: str) -> float:
    seconds = float(text) if re.fullmatch(r"\d+", text) else DEFAULT_STEP
    return min(max(seconds, SHORTEST_STEP), LONGEST_STEP)


def matches(pattern: str, value: str) -> bool:
    """As the agent's Go does: found anywhere, and `$` is the very end, not before a last newline."""
    return re.search(re.sub(r"(?<!\\)\$$", r"\\Z", pattern), value) is not None


def text_of(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else json.dumps(value)


def joined(values: list[str], parameter: Parameter) -> str:
    return json.dumps(values) if parameter.type == "StringList" else values[0]


# --- reading ---


def parse(content: str, written_in: str = "JSON") -> Document:
    """A document from its text; raises as CreateDocument does."""
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
    parameters = {name: _parameter(name, facts) for name, facts in (document.get("parameters") or {}).items()}
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
            "InvalidDocumentContent", f"sessionType {kind!r} is none of {', '.join(SESSION_TYPES)}."
        )
    parts = {name: document.get(name) or {} for name in ("parameters", "inputs", "properties")}
    if wrong := [name for name, part in parts.items() if not isinstance(part, dict)]:
        raise SsmError("InvalidDocumentContent", f"{wrong[0]} is no object.")
    parameters = {name: _parameter(name, facts) for name, facts in parts["parameters"].items()}
    used = set(REFERENCE.findall(json.dumps(parts["properties"])))
    if undefined := sorted(used - parameters.keys()):
        raise SsmError("InvalidDocumentContent", f"Parameters used but not defined: {', '.join(undefined)}.")
    for name, most in (("idleSessionTimeout", 60), ("maxSessionDuration", 1440)):
        given = str(parts["inputs"].get(name) or "")
        if given and not (given.isdigit() and 1 <= int(given) <= most):
            raise SsmError("InvalidDocumentContent", f"{name} is {given!r}; it is 1 to {most} minutes.")
    session = SessionDocument(kind, parts["inputs"], parts["properties"])
    return Document(str(document.get("description", "")), "1.0", parameters, (), session)


def _parameter(name: str, facts: Any) -> Parameter:
    if not isinstance(facts, dict) or facts.get("type") not in PARAMETER_TYPES:
        raise SsmError(
            "InvalidDocumentContent", f"Parameter {name} needs a type of {', '.join(PARAMETER_TYPES)}."
        )
    kind = facts.get("interpolationType", "PLAIN_TEXT")
    if kind not in ("PLAIN_TEXT", "ENV_VAR"):
        raise SsmError("InvalidDocumentContent", f"Parameter {name}: no interpolationType {kind!r}.")
    pattern = facts.get("allowedPattern")
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise SsmError("InvalidDocumentContent", f"Parameter {name}: allowedPattern: {error}.") from error
    default = facts.get("default")
    listed = [text_of(value) for value in default] if isinstance(default, list) else [text_of(default)]
    allowed = facts.get("allowedValues")
    return Parameter(
        name=name,
        type=facts["type"],
        default=None if default is None else listed,
        as_environment=kind == "ENV_VAR",
        allowed_pattern=pattern,
        allowed_values=None if allowed is None else tuple(text_of(value) for value in allowed),
        description=str(facts.get("description", "")),
        min_chars=int(facts.get("minChars", 0)),
        max_chars=int(facts["maxChars"]) if "maxChars" in facts else None,
    )


def _step(facts: Any) -> Step:
    if not isinstance(facts, dict) or not facts.get("action") or not facts.get("name"):
        raise SsmError("InvalidDocumentContent", "Every step needs an action and a name.")
    inputs = facts.get("inputs") or {}
    if facts["action"] == SHELL and "runCommand" not in inputs:
        raise SsmError("InvalidDocumentContent", f"Step {facts['name']}: runCommand is missing.")
    precondition = facts.get("precondition") or {}
    if set(precondition) - {"StringEquals"} or any(len(sides) != 2 for sides in precondition.values()):
        raise SsmError("InvalidDocumentContent", f"Step {facts['name']}: not a precondition: {precondition}.")
    return Step(str(facts["name"]), str(facts["action"]), inputs, precondition)


def _check_references(document: dict[str, Any], parameters: Mapping[str, Parameter]) -> None:
    used = set(REFERENCE.findall(json.dumps(document.get("mainSteps"))))
    undefined = sorted(name for name in used - parameters.keys() if ":" not in name)
    if undefined:
        raise SsmError("InvalidDocumentContent", f"Parameters used but not defined: {', '.join(undefined)}.")


# --- keeping ---


@dataclass(frozen=True)
class Version:
    number: int
    content: str
    format: str
    created: float
    name: str | None = None

    @property
    def document(self) -> Document:
        return parse(self.content, self.format)

    @property
    def hash(self) -> str:
        return hashlib.sha256(self.content.encode()).hexdigest()


@dataclass(frozen=True)
class StoredDocument:
    """A document with its versions. The default is what SendCommand runs unless told otherwise."""

    name: str
    type: str
    target_type: str | None
    default: int
    versions: tuple[Version, ...]
    owner: str
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def latest(self) -> Version:
        return self.versions[-1]

    def version(self, wanted: str | None, named: str | None = None) -> Version:
        match wanted or "$DEFAULT":
            case "$LATEST":
                return self.latest
            case "$DEFAULT" if named is None:
                number = self.default
            case text:
                number = int(text) if text.isdigit() else 0
        for version in self.versions:
            if version.number == number or (named is not None and version.name == named):
                return version
        raise SsmError("InvalidDocumentVersion", f"Document {self.name} has no version {named or wanted}.")


RUN_SHELL_SCRIPT = {
    "schemaVersion": "2.2",
    "description": "Run a shell script or specify the commands to run.",
    "parameters": {
        "commands": {
            "type": "StringList",
            "description": "(Required) Specify a shell script or a command to run.",
        },
        "workingDirectory": {"type": "String", "default": ""},
        "executionTimeout": {
            "type": "String",
            "default": "3600",
            "allowedPattern": "([1-9][0-9]{0,4})|(1[0-6][0-9]{4})|(17[0-1][0-9]{3})|(172[0-7][0-9]{2})|(172800)",
        },
    },
    "mainSteps": [
        {
            "action": SHELL,
            "name": SHELL,
            "inputs": {
                "timeoutSeconds": "{{ executionTimeout }}",
                "workingDirectory": "{{ workingDirectory }}",
                "runCommand": ["{{ commands }}"],
            },
        }
    ],
}


PORT_NUMBER = "^([1-9]|[1-9][0-9]{1,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$"
LOCAL_PORT = PORT_NUMBER.replace("^(", "^(0|")
_COMMAND = {"command": {"type": "String", "description": "(Required) What to run."}}
_ON_LINUX = {"linux": {"commands": "{{ command }}", "runAsElevated": False}}
SESSION_DOCUMENTS: dict[str, dict[str, Any]] = {
    "AWS-StartPortForwardingSession": {
        "schemaVersion": "1.0",
        "description": "Forward a port of the instance.",
        "sessionType": PORT,
        "parameters": {
            "portNumber": {"type": "String", "allowedPattern": PORT_NUMBER, "default": "80"},
            "localPortNumber": {"type": "String", "allowedPattern": LOCAL_PORT, "default": "0"},
        },
        "properties": {
            "portNumber": "{{ portNumber }}",
            "type": "LocalPortForwarding",
            "localPortNumber": "{{ localPortNumber }}",
        },
    },
    "AWS-StartSSHSession": {
        "schemaVersion": "1.0",
        "description": "One connection to a port of the instance, as ssh wants it.",
        "sessionType": PORT,
        "parameters": {"portNumber": {"type": "String", "allowedPattern": PORT_NUMBER, "default": "22"}},
        "properties": {"portNumber": "{{ portNumber }}"},
    },
    "AWS-StartInteractiveCommand": {
        "schemaVersion": "1.0",
        "description": "A command in a terminal of the instance.",
        "sessionType": "InteractiveCommands",
        "parameters": _COMMAND,
        "properties": _ON_LINUX,
    },
    "AWS-StartNonInteractiveCommand": {
        "schemaVersion": "1.0",
        "description": "A command on the instance.",
        "sessionType": "NonInteractiveCommands",
        "parameters": _COMMAND,
        "properties": _ON_LINUX,
    },
}
"""Of Amazon's, by what their names promise; their texts are our own."""


class Documents:
    """All documents of the account; every method is one step that other threads see whole."""

    def __init__(self, account: str) -> None:
        self._account = account
        self._lock = threading.Lock()
        kinds = {"AWS-RunShellScript": "Command", **dict.fromkeys(SESSION_DOCUMENTS, SESSION)}
        contents = {"AWS-RunShellScript": RUN_SHELL_SCRIPT, **SESSION_DOCUMENTS}
        self._amazon = {
            name: StoredDocument(
                name,
                kinds[name],
                None,
                1,
                (Version(1, json.dumps(content, indent=2), "JSON", 0.0),),
                "Amazon",
            )
            for name, content in contents.items()
        }
        self._own: dict[str, StoredDocument] = {}

    def get(self, name: str) -> StoredDocument:
        """By name or ARN; raises InvalidDocument."""
        short = name.rpartition("document/")[2] if name.startswith("arn:") else name
        found = self._own.get(short) or self._amazon.get(short)
        if found is None:
            raise SsmError("InvalidDocument", f"Document with name {name} does not exist.")
        return found

    def find(self, name: str) -> StoredDocument | None:
        """An own one, by its name."""
        return self._own.get(name)

    def all(self) -> list[StoredDocument]:
        return sorted([*self._own.values(), *self._amazon.values()], key=lambda kept: kept.name)

    def create(
        self,
        name: str,
        content: str,
        written_in: str,
        kind: str,
        now: float,
        *,
        target_type: str | None = None,
        version_name: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> StoredDocument:
        if not NAME.match(name):
            raise SsmError("ValidationException", f"Document name {name!r} does not match {NAME.pattern}.")
        if RESERVED.match(name):
            raise SsmError(
                "ValidationException", f"Document name {name!r} begins with a prefix that AWS keeps."
            )
        document = parse(content, written_in)
        if (document.session is not None) is not (kind == SESSION):
            raise SsmError(
                "InvalidDocumentContent",
                f"A document of the type {kind} cannot have schemaVersion {document.schema_version}.",
            )
        version = Version(1, content, written_in, now, version_name)
        kept = StoredDocument(name, kind, target_type, 1, (version,), self._account, dict(tags or {}))
        with self._lock:
            if name in self._own:
                raise SsmError("DocumentAlreadyExists", f"Document with the name {name} already exists.")
            self._own[name] = kept
        return kept

    def update(
        self, name: str, content: str, written_in: str, now: float, version_name: str | None = None
    ) -> StoredDocument:
        """A new version, which becomes the latest but not the default."""
        parse(content, written_in)
        with self._lock:
            kept = self._of_own(name)
            if any(version.content == content for version in kept.versions):
                raise SsmError(
                    "DuplicateDocumentContent", "The content of the document duplicates another version."
                )
            version = Version(kept.latest.number + 1, content, written_in, now, version_name)
            self._own[kept.name] = replace(kept, versions=(*kept.versions, version))
            return self._own[kept.name]

    def set_default(self, name: str, number: str) -> StoredDocument:
        with self._lock:
            kept = self._of_own(name)
            self._own[kept.name] = replace(kept, default=kept.version(number).number)
            return self._own[kept.name]

    def delete(self, name: str, number: str | None = None) -> None:
        with self._lock:
            kept = self._of_own(name)
            if number is None:
                del self._own[kept.name]
                return
            doomed = kept.version(number)
            if doomed.number == kept.default:
                raise SsmError(
                    "InvalidDocumentOperation", "Default version of the document can't be deleted."
                )
            left = tuple(version for version in kept.versions if version is not doomed)
            self._own[kept.name] = replace(kept, versions=left)

    def tag(self, name: str, tags: Mapping[str, str]) -> None:
        with self._lock:
            kept = self._of_own(name)
            self._own[kept.name] = replace(kept, tags=dict(tags))

    def save(self) -> dict[str, StoredDocument]:
        with self._lock:
            return dict(self._own)

    def restore(self, saved: dict[str, StoredDocument]) -> None:
        with self._lock:
            self._own = dict(saved)

    def _of_own(self, name: str) -> StoredDocument:
        kept = self.get(name)
        if kept.name in self._amazon:
            raise SsmError("InvalidDocumentOperation", f"{name} belongs to Amazon and cannot be changed.")
        return kept
