"""What hosts leave in the bucket, for a look when no event came: how they ended their part in an attempt, and before
that, from a chief's host, a sign of life once a minute. Each under a name of its own, which IAM holds it to."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from lambdas.aws import s3
from lambdas.core.edges import events
from lambdas.core.edges.events import FromHost
from lambdas.steps.observability import logger
from trainyard.protocol import keys
from trainyard.values.lazy import dataclass


@dataclass(frozen=True, kw_only=True)
class LeftWord:
    """A signal that its host has put on the bus, too. `detail` is its text as it was found."""

    word: str
    at: datetime
    signal: FromHost
    detail: Mapping[str, Any]


SIGN_OF_LIFE = "progress"


def endings_of(bucket: str, run: str, attempt: int) -> list[LeftWord]:
    """Return how hosts of this attempt have ended their part in it, oldest first."""
    words = of_attempt(bucket, run, attempt)
    return sorted((left for left in words if left.word != SIGN_OF_LIFE), key=lambda left: left.at)


def of_attempt(bucket: str, run: str, attempt: int) -> Iterator[LeftWord]:
    """Return the words of this attempt's hosts. What cannot be read as a word is logged and left out."""
    for key in s3.keys(bucket, keys.words(run, attempt)):
        found = _read(bucket, key)
        if isinstance(found, LeftWord):
            yield found
        else:
            logger.warning("%s is no signal of a host: %s", key, found)


def last_of(bucket: str, run: str, attempt: int, instance: str) -> FromHost | None:
    """The `failed` that the host could only leave there, since it may not put events."""
    for key in s3.keys(bucket, keys.last_words(run, attempt)):
        if events.writer_of(key) == instance:
            found = _read(bucket, key)
            if isinstance(found, LeftWord) and found.word == "failed":
                return found.signal
            logger.warning("%s is no failure of a host: %s", key, found)
    return None


def _read(bucket: str, key: str) -> LeftWord | str:
    try:
        detail = s3.get_json(bucket, key) or {}
    except ValueError as error:
        return str(error)
    word = str(detail.get("signal"))
    signal = events.host_signal(word, detail)
    if isinstance(signal, str):
        return signal
    if signal.instance != events.writer_of(key):
        return f"it speaks of {signal.instance}"
    return LeftWord(word=word, at=signal.at, signal=signal, detail=detail) if signal.at else "it has no time"
