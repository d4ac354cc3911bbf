"""Sources of events on the yard's bus. IAM lets each sender put events only under a source of its own."""

from typing import Any

from trainyard.values.text import printable

HOSTS, PEOPLE, PATROL = "trainyard.host/", "trainyard.people/", "trainyard.patrol"
"""Hosts and people add how IAM names them: a host its aws:userid (`<id of its role>:<instance>`), a person that or the
aws:username. Every other source is AWS's."""
CONDITION_KEY = "events:source"
MOST_CHARACTERS = 512
"""The longest name of a person that is shown."""


def only_from(*sources: str) -> dict[str, dict[str, Any]]:
    """Return the condition of a policy that allows events from these sources only. A source may end in `*`.

    AWS's reference calls events:source an array, and does not say how an operator without a set compares arrays. So
    ForAllValues compares every entry of a request. It is true for a request without a source, which the plain operator
    beside it does not allow."""
    operator = "StringLike" if any(source.endswith("*") for source in sources) else "StringEquals"
    values = {CONDITION_KEY: list(sources)}
    return {operator: values, f"ForAllValues:{operator}": values}


def of_host(user: str) -> str:
    """Return the source of a host; `user` is its aws:userid."""
    return f"{HOSTS}{user}"


def of_person(user: str) -> str:
    """Return the source of a person; `user` is the aws:username or the aws:userid."""
    return f"{PEOPLE}{user}"


def host_in(source: str) -> str | None:
    """Return the instance that has sent an event; None if no host has."""
    return source.rpartition(":")[2] if source.startswith(HOSTS) else None


def person_in(source: str) -> str | None:
    """Return the person who has sent an event, fit to be shown; None if no person has."""
    return printable(source.removeprefix(PEOPLE), MOST_CHARACTERS) if source.startswith(PEOPLE) else None


def writer_of(key: str) -> str:
    """Return the instance that has written a file of its own: IAM lets each host write only below its aws:userid."""
    return key.rpartition("/")[2].removesuffix(".json").rpartition(":")[2]
