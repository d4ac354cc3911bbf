"""The lowest permission level that allows a denied action."""

import re
from pathlib import Path

import pytest

from trainyard.client import grants

PAGE = Path(__file__).parents[3] / "docs" / "permissions.md"
ACTION = re.compile(r"`([a-z0-9]+:\w+)`")


def table() -> dict[str, set[str]]:
    """Return the actions of the page's table, by the lowest level that each row allows."""
    found: dict[str, set[str]] = {"viewer": set(), "user": set(), "operator": set()}
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and "yes" in cells[3]:
            level = next(name for name, cell in zip(found, cells[1:4], strict=True) if cell)
            found[level] |= set(ACTION.findall(cells[4]))
    return found


def test_the_levels_are_those_of_the_page() -> None:
    page = table()
    page["user"] -= page["viewer"]
    page["operator"] -= page["viewer"] | page["user"]
    assert {level: set(actions) for level, actions in grants.LOWEST.items()} == page


@pytest.mark.parametrize(
    ("action", "resource", "level"),
    [
        ("s3:GetObject", "arn:aws:s3:::b/runs/x", "viewer"),
        ("s3:PutObject", "arn:aws:s3:::b/jobs/x.json", "user"),
        ("s3:PutObject", "arn:aws:s3:::b/images/gpu.yaml", "operator"),
        ("states:StartExecution", "arn:aws:states:us-east-1:1:stateMachine:trainyard-bake", "operator"),
        ("states:StartExecution", "arn:aws:states:us-east-1:1:stateMachine:trainyard-train", "operator"),
        ("states:StartExecution", "arn:aws:states:us-east-1:1:stateMachine:trainyard-snapshot", "user"),
        ("states:StopExecution", "arn:aws:states:us-east-1:1:execution:trainyard-train:x", "user"),
        ("ec2:CreateTags", "arn:aws:ec2:us-east-1:1:instance/i-1", "operator"),
        ("iam:AttachRolePolicy", "*", None),
    ],
)
def test_a_denial_names_the_lowest_level_that_may(action: str, resource: str, level: str | None) -> None:
    assert grants.level_of(action, resource) == level
    assert ("administrator" in grants.advice(action, resource)) is True
    assert level is None or f"grant WHO {level}" in grants.advice(action, resource)
