"""Filters of Describe actions that moto does not answer: wildcards, several values, an error for what is unknown."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from typing import Any

from moto.ec2.exceptions import EC2ClientError


def matching_rows(
    rows: list[dict[str, Any]], fields: Mapping[str, str], wanted: dict[str, Any]
) -> list[dict[str, Any]]:
    """The rows that every filter fits; `fields` says which field of a row each filter asks about."""
    return [row for row in rows if matches({name: [str(row[key])] for name, key in fields.items()}, wanted)]


def matches(facts: dict[str, list[str]], wanted: dict[str, Any]) -> bool:
    """True when every filter finds one of its values (wildcards allowed); an unknown filter is an error."""
    for name, values in wanted.items():
        if name not in facts and not name.startswith("tag:"):
            raise EC2ClientError("InvalidParameterValue", f"The filter '{name}' is invalid")
        if not any(fnmatch.fnmatchcase(fact, value) for fact in facts.get(name, []) for value in values):
            return False
    return True
