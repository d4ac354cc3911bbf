"""Parameters of an SSM document in its steps."""

import json
from typing import Any

import pytest

from localcloud.base.run_command import matches, step_timeout
from localcloud.services.ssm.document import SsmError, parse


def document(run: list[str], parameters: dict[str, Any] | None = None, **inputs: Any) -> str:
    step = {"action": "aws:runShellScript", "name": "step", "inputs": {"runCommand": run, **inputs}}
    return json.dumps({"schemaVersion": "2.2", "parameters": parameters or {}, "mainSteps": [step]})


TEXT = {"type": "String"}
LIST = {"type": "StringList"}
HIDDEN = {"type": "String", "interpolationType": "ENV_VAR"}


@pytest.mark.parametrize(
    ("sentence", "run", "parameters", "given", "script"),
    [
        ("pasted as text", ["echo {{ A }}-{{A}}"], {"A": TEXT}, {"A": ["x y"]}, "echo x y-x y"),
        ("a list becomes lines", ["{{ L }}"], {"L": LIST}, {"L": ["one", "two"]}, "one\ntwo"),
        (
            "a list within a line is JSON",
            ["echo '{{ L }}'"],
            {"L": LIST},
            {"L": ["a", "b"]},
            'echo \'["a", "b"]\'',
        ),
        ("an environment one is named", ["echo {{ H }}"], {"H": HIDDEN}, {"H": ["; rm"]}, "echo ${SSM_H}"),
        ("a default is used", ["echo {{ A }}"], {"A": {**TEXT, "default": "d"}}, {}, "echo d"),
        (
            "true is lower case",
            ["echo {{ B }}"],
            {"B": {"type": "Boolean", "default": True}},
            {},
            "echo true",
        ),
    ],
)
def test_a_parameter_arrives(
    sentence: str, run: list[str], parameters: dict[str, Any], given: dict[str, list[str]], script: str
) -> None:
    found = parse(document(run, parameters))
    assert found.scripts(found.check(given))[0].text == script, sentence


def test_an_environment_parameter_is_exported_under_its_name() -> None:
    found = parse(document(["true"], {"JobId": HIDDEN}))
    assert found.scripts(found.check({"JobId": ["j-1"]}))[0].env == {"SSM_JobId": "j-1"}


@pytest.mark.parametrize(
    ("pattern", "value", "is_match"),
    [
        ("^[a-z]+$", "abc", True),
        ("^[a-z]+$", "abc\n", False),
        ("^[a-z]+$", "abc;", False),
        ("[a-z]+", "123abc; rm", True),
    ],
)
def test_a_pattern_matches_as_the_agents_does(pattern: str, value: str, is_match: bool) -> None:
    assert matches(pattern, value) is is_match


@pytest.mark.parametrize(("text", "seconds"), [("600", 600), ("1", 5), ("9999999", 172800), ("", 3600)])
def test_a_steps_time_has_bounds(text: str, seconds: float) -> None:
    assert step_timeout(text) == seconds


@pytest.mark.parametrize(
    "definition",
    [
        {"type": "Text"},
        {"type": "String", "interpolationType": "SHELL"},
        {"type": "String", "allowedPattern": "["},
    ],
)
def test_a_parameter_must_be_well_said(definition: dict[str, str]) -> None:
    with pytest.raises(SsmError, match="InvalidDocumentContent"):
        parse(document(["true"], {"A": definition}))
