"""Locks: a list of requirements with all that it needs, each file by its SHA-256 (`make lock` writes them).

A list that somebody has changed since is installed as it says, without hashes, and that is said.
"""

import re

PIN = re.compile(r"^([\w.-]+)(?:\[[^]]*\])?==([^\s;#\\]+)", re.MULTILINE)


def pins(text: str) -> set[tuple[str, str]]:
    """Name, as indexes spell it, and version of each line that pins one."""
    return {(re.sub(r"[-_.]+", "-", found[1]).lower(), found[2]) for found in PIN.finditer(text)}


def changed(listed: str, lock: str) -> list[str]:
    """What the list asks for and its lock does not have, as `name==version`."""
    return sorted(f"{name}=={version}" for name, version in pins(listed) - pins(lock))


def warning(name: str, missing: list[str]) -> str:
    """`name` is the list's."""
    return (
        f"requirements/{name} was changed since requirements/locks/{name} was written ({', '.join(missing)}): it is "
        "installed as it says, and no file is held to its SHA-256; `make lock` writes the lock again"
    )
