"""Request rates as token buckets. Requests beyond the rate are throttled."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Rate:
    """A bucket's capacity in tokens, and its refill in tokens a second."""

    burst: float
    refill: float

    @classmethod
    def parse(cls, given: object) -> Rate:
        """Parse `[burst, refill]` of a settings file. Raise ValueError that names the allowed form."""
        if (
            not isinstance(given, list)
            or len(given) != 2
            or not all(isinstance(each, int | float) and 0 < each < math.inf for each in given)
        ):
            raise ValueError(f"{given!r}; allowed: [the most at once, how many more a second]")
        return cls(*map(float, given))


class Bucket:
    """The current state of a rate. `now` is in seconds from any origin."""

    def __init__(self, rate: Rate, now: float) -> None:
        self._rate, self._tokens, self._at = rate, rate.burst, now

    def take(self, tokens: float, now: float) -> bool:
        """Take the tokens if the bucket holds them. A request for more than the capacity takes a full bucket."""
        self._tokens = min(self._rate.burst, self._tokens + (now - self._at) * self._rate.refill)
        self._at = now
        wanted = min(tokens, self._rate.burst)
        if self._tokens < wanted:
            return False
        self._tokens -= wanted
        return True


def rate_of(rates: Mapping[str, Rate], action: str) -> Rate | None:
    """Return the rate under the most specific key that matches an action such as "ec2:DescribeImages", in any case."""
    fitting = [key for key in rates if fnmatch.fnmatchcase(action.lower(), key.lower())]
    return rates[min(fitting, key=lambda key: ("*" in key, -len(key)))] if fitting else None
