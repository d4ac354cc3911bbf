"""Needs of a function that its stack fulfills. Each function declares them next to its handler."""

from typing import Literal, NamedTuple

from lambdas.environment import Settings

Sentence = Literal[
    "act on hosts",
    "answer tasks",
    "call",
    "delete objects",
    "describe executions",
    "image hosts",
    "invoke functions",
    "keep disks",
    "keep schedules",
    "launch hosts of any image",
    "launch hosts of the yard's images",
    "list executions",
    "list objects",
    "make service-linked roles",
    "mark hosts",
    "plan launches",
    "read and list objects",
    "read data buckets",
    "read file systems",
    "read models",
    "read objects",
    "read parameters of base images",
    "read registries",
    "read registries without logins",
    "read versions",
    "read webhooks",
    "retire images",
    "run documents",
    "send dead letters",
    "send notifications",
    "start executions",
    "start hosts",
    "stop executions",
    "use the image parameter",
    "use the image parameters",
    "upload the recipe",
    "use the ledger",
    "write objects",
]
"""The permissions that a function can ask for. `stacks/constructs/permissions/grants.py` translates each sentence."""

Compiled = Literal["study", "predict"]
"""A list of compiled packages: requirements/study.txt has Optuna, requirements/predict.txt has LiteRT."""


class Grant(NamedTuple):
    """A sentence and its objects: calls of AWS, keys of the bucket, tags, documents, workflows or functions."""

    sentence: Sentence
    on: tuple[str, ...]


class Needs(NamedTuple):
    settings: type[Settings]
    """The class that the function reads. The stack sets the environment variable of each field."""
    grants: tuple[Grant, ...] = ()
    minutes: float = 1
    memory_mib: int = 512
    """The share of a processor grows with the memory."""
    compiled: Compiled | None = None
    """The list of compiled packages that the function imports: it gets their layer."""


def may(sentence: Sentence, *on: str) -> Grant:
    return Grant(sentence, on)
