"""docs/platform.md and the policies below docs/policies match the templates."""

import json
from fnmatch import fnmatchcase

import pytest

from tests.infrastructure import platform_page
from tests.infrastructure.assembly import Assembly
from tests.infrastructure.conftest import ROOT
from tests.infrastructure.reference import faults

WRITE = "python -m tests.infrastructure.platform_page writes them"


@pytest.fixture(scope="module")
def yards(yard: Assembly, private_yard: Assembly, keyed: Assembly) -> list[Assembly]:
    return [yard, private_yard, keyed]


def test_the_pages_tables_are_the_templates(yards: list[Assembly]) -> None:
    text = platform_page.PAGE.read_text()
    assert platform_page.page(text, platform_page.parts(yards)) == text, WRITE
    assert f"```python\n{(ROOT / 'examples/embedded/small.py').read_text()}```" in text


def test_the_policies_are_the_templates(yards: list[Assembly]) -> None:
    files = {file.name: json.loads(file.read_text()) for file in platform_page.POLICIES.glob("*.json")}
    assert files == platform_page.policies(yards), WRITE


def test_the_policies_fit_into_managed_policies(yards: list[Assembly]) -> None:
    documents = platform_page.policies(yards)
    sizes = {name: platform_page.characters(each) for name, each in documents.items()}
    assert {name: size for name, size in sizes.items() if size > platform_page.MOST_CHARACTERS} == {}


def test_the_boundarys_actions_exist(yards: list[Assembly]) -> None:
    statements = platform_page.boundary(yards)["Statement"]
    assert [fault for statement in statements for fault in faults(statement)] == []


def test_the_boundary_admits_every_permission_of_every_role(yards: list[Assembly]) -> None:
    patterns = [action for each in platform_page.boundary(yards)["Statement"] for action in each["Action"]]
    for yard in yards:
        actions = {permission.action for role in yard.roles for permission in yard.permissions(role)}
        assert actions
        assert [
            action for action in actions if not any(fnmatchcase(action, pattern) for pattern in patterns)
        ] == []
