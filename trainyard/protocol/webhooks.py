"""Webhooks, and the attributes of notifications that select them.

A webhook is a SecureString of Parameter Store: `/YARD/webhooks/NAME` of the yard, `/YARD/webhooks/by/SUBMITTER` of a
user. Its value is a Webhook as JSON. Its description is the same without the secrets, so that everyone may list it."""

import re
from enum import StrEnum

from trainyard.values.lazy import dataclass

ME = "me"
"""The target in `notify` that stands for the webhook of the submitter."""
FOLDER = "webhooks"
OWN = "by"
"""The folder of users' webhooks. No webhook has this name."""
NAME = r"(?!(me|by)$)[a-z][a-z0-9-]{0,39}"
NAMED = (
    "a name of 1 to 40 lower-case letters, digits and hyphens that begins with a letter, and is not me or by"
)
NOT_REGISTERED = "it is not registered"
"""The problem of a webhook that does not exist, in the answer of the function `try-webhook`."""
NO_PARAMETER = re.compile(r"[^A-Za-z0-9.-]")
"""Characters of IAM's names that names of parameters do not allow, and the one that escapes them."""


class NotificationKind(StrEnum):
    """The subject of a notification, in its attribute `kind`."""

    END = "end"
    """A run or a study has ended, and did not fail."""
    FAILURE = "failure"
    """A run or a study has failed or was refused."""
    INTERRUPTION = "interruption"
    """EC2 took a host back or a host was lost. The run continues with another attempt."""
    BUDGET = "budget"
    """A part of the monthly budget is spent."""
    IDLE = "idle"
    """Patrol acted on hosts that were idle or lost, or will do so."""
    ALARM = "alarm"
    """An alarm of the yard, or a warning of patrol."""
    DAY = "day"
    """The summary of a day."""


USUAL = tuple(kind for kind in NotificationKind if kind is not NotificationKind.DAY)
"""The kinds that a webhook gets unless its registration names others."""


class WebhookKind(StrEnum):
    """The receiver of a webhook, which determines the body of its requests."""

    SLACK = "slack"
    TEAMS = "teams"
    DISCORD = "discord"
    URL = "url"
    """Any server: JSON, signed as in Standard Webhooks."""


class Attribute(StrEnum):
    """An attribute of a message to the yard's topic. An attribute without a value is missing."""

    KIND = "kind"
    """NotificationKind. Alarms of CloudWatch have none."""
    RUN = "run"
    SUBMITTER = "submitter"
    NOTIFY = "notify"
    """The targets in the job's `notify`, with commas."""


@dataclass(frozen=True, kw_only=True)
class WebhookListing:
    """The description of a webhook's parameter: everything except its secrets."""

    kind: WebhookKind
    on: tuple[NotificationKind, ...] = USUAL
    """The kinds of notifications that it gets."""
    named_only: bool = False
    """True: only for runs whose `notify` names it."""
    by: str = ""
    """The user who registered it."""


@dataclass(frozen=True, kw_only=True)
class Webhook(WebhookListing):
    """The value of a webhook's parameter."""

    url: str
    key: str = ""
    """The key of the signature, `whsec_` and base64, of the kind `url`."""


def is_name(word: str) -> bool:
    """Return True for a name that a webhook of the yard may have."""
    return re.fullmatch(NAME, word) is not None


def folder(yard: str) -> str:
    """Return the folder of the parameters of the yard's webhooks. Users' webhooks are in a folder below it."""
    return f"/{yard}/{FOLDER}"


def parameter(yard: str, name: str) -> str:
    """Return the parameter of a webhook of the yard."""
    return f"{folder(yard)}/{name}"


def own_parameter(yard: str, submitter: str) -> str:
    """Return the parameter of a user's webhook. Each character that a parameter does not allow becomes `_` and its
    number."""
    escaped = NO_PARAMETER.sub(lambda found: f"_{ord(found[0]):x}_", submitter)
    return f"{folder(yard)}/{OWN}/{escaped}"


def name_in(target: str) -> str:
    """Return the name in a target of `notify`, without the kind."""
    return target.rpartition(":")[2]


def kind_in(target: str) -> str:
    """Return the kind in a target of `notify`, or an empty text without one."""
    return target.rpartition(":")[0]
