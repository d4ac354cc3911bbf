"""Sources of events on the yard's bus. IAM lets each sender put events only under a source of its own."""

from typing import Any

from trainyard.values.text import printable

HOSTS, PEOPLE, OPERATORS, PATROL = (
    "trainyard.host/",
    "trainyard.people/",
    "trainyard.operator/",
    "trainyard.patrol",
)
"""Hosts and users append their IAM name: a host its aws:userid (`<id of its role>:<instance>`), a user the aws:userid
or the aws:username. IAM lets only operators send events as OPERATORS. All other sources are AWS's."""
CONDITION_KEY = "events:source"
MOST_CHARACTERS = 512
"""The longest name of a user that is shown."""


def only_from(*sources: str) -> dict[str, dict[str, Any]]:
    """Return the condition of a policy that allows only events from these sources. A source may end in `*`.

    AWS's reference calls events:source an array and does not specify how an operator without a set compares arrays.
    Therefore ForAllValues compares every entry of a request. ForAllValues is true for a request without a source; the
    plain operator beside it denies such a request.
    """
    operator = "StringLike" if any(source.endswith("*") for source in sources) else "StringEquals"
    values = {CONDITION_KEY: list(sources)}
    return {operator: values, f"ForAllValues:{operator}": values}


def host_source(user: str) -> str:
    """Return the source of a host; `user` is its aws:userid."""
    return f"{HOSTS}{user}"


def user_source(user: str) -> str:
    """Return the source of a user. `user` is the aws:username or the aws:userid."""
    return f"{PEOPLE}{user}"


def operator_source(user: str) -> str:
    """Return the source of a user who acts as an operator on what belongs to another user."""
    return f"{OPERATORS}{user}"


def sending_host(source: str) -> str | None:
    """Return the instance that sent an event, or None for any other sender."""
    return source.rpartition(":")[2] if source.startswith(HOSTS) else None


def sending_user(source: str) -> str | None:
    """Return the user who sent an event, printable, or None for any other sender."""
    for prefix in (PEOPLE, OPERATORS):
        if source.startswith(prefix):
            return printable(source.removeprefix(prefix), MOST_CHARACTERS)
    return None


def is_operator(source: str) -> bool:
    """Return True for the event of an operator."""
    return source.startswith(OPERATORS)


def writer_of(key: str) -> str:
    """Return the instance that wrote a file. IAM lets each host write only below its own aws:userid."""
    return key.rpartition("/")[2].removesuffix(".json").rpartition(":")[2]
