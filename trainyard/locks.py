"""Locks: lists of requirements with all their dependencies, each file with its SHA-256 (`make lock` writes them).

If a list has changed since its lock was written, it is installed without hashes and a warning is printed.
"""

import re

PIN = re.compile(r"^([\w.-]+)(?:\[[^]]*\])?==([^\s;#\\]+)", re.MULTILINE)


def pins(text: str) -> set[tuple[str, str]]:
    """Return the name, normalized as in indexes, and the version of each pinned line."""
    return {(re.sub(r"[-_.]+", "-", found[1]).lower(), found[2]) for found in PIN.finditer(text)}


def find_changed(listed: str, lock: str) -> list[str]:
    """Return the pins of the list that its lock lacks, as `name==version`."""
    return sorted(f"{name}=={version}" for name, version in pins(listed) - pins(lock))


def warning(name: str, missing: list[str]) -> str:
    """Return the warning that the list `name` differs from its lock."""
    return (
        f"requirements/{name} was changed after requirements/locks/{name} was written ({', '.join(missing)}). It is "
        "installed without checking the SHA-256 of its files. To write the lock again, run `make lock`."
    )
