"""Conditions of permissions."""

from tests.infrastructure.assembly import Assembly, Permission

YARD = "trainyard"


def of(yard: Assembly, function: str, action: str) -> list[Permission]:
    found = [each for each in yard.permissions(yard.role_of(function)) if each.action == action]
    assert found, f"{function} lacks {action}"
    return found


def tagged(permission: Permission, key: str) -> bool:
    return bool(permission.when.get("StringEquals", {}).get(key) == YARD)
