"""Request rates as token buckets: who asks for more in a second than is left is told to come again."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Rate:
    """A bucket of so many tokens, filled with so many a second."""

    burst: float
    refill: float

    @classmethod
    def parse(cls, given: object) -> Rate:
        """From a settings file's `[burst, refill]`; ValueError says what is allowed."""
        if (
            not isinstance(given, list)
            or len(given) != 2
            or not all(isinstance(each, int | float) and 0 < each < math.inf for each in given)
        ):
            raise ValueError(f"{given!r}; allowed: [the most at once, how many more a second]")
        return cls(*map(float, given))


class Bucket:
    """What is left of a rate; `now` is in seconds, from wherever."""

    def __init__(self, rate: Rate, now: float) -> None:
        self._rate, self._tokens, self._at = rate, rate.burst, now

    def take(self, tokens: float, now: float) -> bool:
        """Whether there were so many (a request for more than a whole bucket takes a full one)."""
        self._tokens = min(self._rate.burst, self._tokens + (now - self._at) * self._rate.refill)
        self._at = now
        wanted = min(tokens, self._rate.burst)
        if self._tokens < wanted:
            return False
        self._tokens -= wanted
        return True


def rate_of(rates: Mapping[str, Rate], action: str) -> Rate | None:
    """The rate under the most exact key that fits an action ("ec2:DescribeImages", in any case), if one does."""
    fitting = [key for key in rates if fnmatch.fnmatchcase(action.lower(), key.lower())]
    return rates[min(fitting, key=lambda key: ("*" in key, -len(key)))] if fitting else None
