"""Faults of the targets in a job's `notify`."""

import json
from collections.abc import Mapping, Sequence

from trainyard.command_line import command_line
from trainyard.protocol import webhooks
from trainyard.protocol.webhooks import ME, WebhookKind, folder, kind_in, name_in
from trainyard.values.validation import Fault, did_you_mean


def faults(
    notify: Sequence[str], descriptions: Mapping[str, str], yard: str, sender: str
) -> tuple[Fault, ...]:
    """Return a fault for each target that is not registered. `descriptions` has the descriptions of all webhooks'
    parameters by their names, and `sender` is the submitter."""
    below = f"{folder(yard)}/"
    known = {
        name.removeprefix(below): _kind(text)
        for name, text in descriptions.items()
        if "/" not in name.removeprefix(below)
    }
    mine = webhooks.own_parameter(yard, sender)
    if mine in descriptions:
        known[ME] = _kind(descriptions[mine])
    return tuple(
        Fault(f"notify[{index}]", problem)
        for index, target in enumerate(notify)
        if (problem := _problem(target, known, sender))
    )


def _problem(target: str, known: Mapping[str, str], sender: str) -> str | None:
    name, kind = name_in(target), kind_in(target)
    wanted = kind or WebhookKind.SLACK.value
    register = command_line("webhook", "add", name, "--kind", wanted)
    if name not in known:
        if name == ME:
            return f"{sender} has no webhook of their own; register it: {register}"
        names = sorted(each for each in known if each != ME)
        there = (
            f"the yard has {', '.join(names)}{did_you_mean(name, names)}" if names else "the yard has none"
        )
        return f"the webhook {name} does not exist: {there}; register it: {register}"
    if kind and known[name] not in (kind, ""):
        return f"the webhook {name} is of the kind {known[name]}: write {known[name]}:{name}, or only {name}"
    return None


def _kind(description: str) -> str:
    """Return the kind in a description, or an empty text for one that was written by hand."""
    try:
        return str(json.loads(description)["kind"])
    except (ValueError, LookupError, TypeError):
        return ""
