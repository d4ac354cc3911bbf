"""The settings of a yard by their keys, as CDK context and `-c KEY=VALUE` have them: each is read and checked here."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from trainyard.core.model.yard import data_buckets, policy
from trainyard.core.model.yard.data_buckets import DataBucket
from trainyard.core.model.yard.policy import Policy
from trainyard.values.validation import InputFaults, nearest, shown

Reader: TypeAlias = Callable[[str, object], Any]
"""A setting from its key and what context says. Raises ValueError naming the key."""
# fmt: off
DAYS = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653)
# fmt: on
"""How long CloudWatch may keep logs."""

NAME = (
    r"[A-Z][A-Za-z0-9]{0,19}",
    "a yard is named by a capital letter and up to 19 letters or digits, like Trainyard",
)
RECIPE = r"[a-z][a-z0-9-]{0,29}", "say the name of a recipe under images/, like gpu"
ZONE = r"[a-z]+(-[a-z0-9]+)+"
VPC, SUBNET = r"(vpc-[0-9a-f]{8,17})?", r"subnet-[0-9a-f]{8,17}"
POLICY = r"(arn:[^:]+:iam::(\d{12}|aws):policy/.+)?"
KEY = r"(arn:[^:]+:kms:[a-z0-9-]+:\d{12}:key/[0-9a-zA-Z-]+)?"
SCHEDULE = r"\s*((rate|cron)\(.+\))?\s*"
RATE = r"0*(0|100|200|300)", "say 100, 200 or 300 MiB a second, or 0"
ADDRESS = r"([^@\s,]+@[^@\s,]+\.[^@\s,]+)?"
IMAGE = r"ami-[0-9a-f]{8,17}|/?[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*"
NUMBER = r"\d{1,6}", "say a whole number; 0 for no limit"
DOLLARS = r"\d{1,9}(\.\d{1,2})?", "say dollars, like 500 or 99.50; 0 for none"


def _matches(pattern: str, say: str, *, to: Callable[[str], Any] = str) -> Reader:
    def read(key: str, given: object) -> Any:
        word = str(given)
        if not re.fullmatch(pattern, word):
            raise ValueError(f"context {key}={word!r}: {say}")
        return to(word)

    return read


def _flag(key: str, given: object) -> bool:
    word = str(given).lower()
    if word not in ("true", "false"):
        raise ValueError(f"context {key}={word!r}: say true or false")
    return word == "true"


def _several(pattern: str, say: str) -> Reader:
    """Different words, one after the other by commas."""

    def read(key: str, given: object) -> tuple[str, ...]:
        word = str(given)
        each = tuple(part.strip() for part in word.split(",")) if word.strip() else ()
        if not all(re.fullmatch(pattern, part) for part in each) or len(set(each)) < len(each):
            raise ValueError(f"context {key}={word!r}: {say}")
        return each

    return read


def _days(key: str, given: object) -> int:
    days = str(given)
    if days not in map(str, DAYS):
        raise ValueError(
            f"context {key}={days!r}: CloudWatch keeps logs for {', '.join(map(str, DAYS))} days"
        )
    return int(days)


def _policy(key: str, given: object) -> Policy:
    """A mapping in cdk.json, JSON on the command line."""
    try:
        given = json.loads(given) if isinstance(given, str) else given
    except ValueError as error:
        raise ValueError(f"context {key}: {shown(given)} is no JSON: {error}") from error
    found = policy.of_mapping(given, path="policy")
    if isinstance(found, InputFaults):
        raise ValueError(f"context {'; '.join(map(str, found.faults))}")  # noqa: TRY004 - of its value, not of its type
    return found


def _data_buckets(key: str, given: object) -> tuple[DataBucket, ...]:
    say = "say buckets or folders of them, like corpus,shared/images/=arn:aws:kms:..., or nothing"
    return tuple(DataBucket.of(each) for each in _several(data_buckets.PLACE, say)(key, given))


COUNT = _matches(r"0*[1-9]\d*", "say a whole number above zero", to=int)

READERS: Mapping[str, Reader] = {
    "yard": _matches(*NAME),
    "private": _flag,
    "zones": _several(ZONE, "say different zones, like us-east-1a,us-east-1b, or nothing"),
    "vpc": _matches(VPC, "say the id of a VPC, like vpc-0123456789abcdef0, or nothing"),
    "subnets": _several(SUBNET, "say different ids, like subnet-0a1b2c3d,subnet-1b2c3d4e, or nothing"),
    "s3_endpoint": _flag,
    "permissions_boundary": _matches(POLICY, "say the ARN of a managed policy, or nothing"),
    "kms_key": _matches(KEY, "say the ARN of a key (not of an alias), or nothing"),
    "log_days": _days,
    "disposable": _flag,
    "notify": _matches(ADDRESS, "say a mail address, like you@example.com, or nothing"),
    "base_image_parameter": _matches(
        IMAGE, "say the name of a parameter, like /images/base, or the id of an image"
    ),
    "bake_recipe": _matches(*RECIPE),
    "bake_on_deploy": _flag,
    "bake_schedule": _matches(SCHEDULE, "say rate(7 days), cron(0 3 ? * SUN *) or nothing", to=str.strip),
    "look_seconds": COUNT,
    "volume_initialization_rate": _matches(*RATE, to=int),
    "keep_images": COUNT,
    "keep_days": COUNT,
    "policy": _policy,
    "monthly_dollars": _matches(*DOLLARS, to=float),
    "most_dollars_per_run": _matches(*DOLLARS, to=float),
    "most_runs": _matches(*NUMBER, to=int),
    "most_hosts": _matches(*NUMBER, to=int),
    "most_hold_hours": _matches(r"\d{1,4}(\.\d{1,2})?", "say hours, like 24; 0 for no limit", to=float),
    "most_pool_hosts": _matches(r"0*(\d|1[0-6])", "say 0 to 16 hosts; 0 for none", to=int),
    "data_buckets": _data_buckets,
    "when_full": _matches("wait|refuse", "say wait or refuse"),
    "bucket": _matches(f"({data_buckets.BUCKET})?", "say the name of a bucket, or nothing"),
    "ledger": _matches(r"([A-Za-z0-9_.-]{3,255})?", "say the name of a table, or nothing"),
}
"""How each setting is read, by what context calls it."""
CALLED = {"yard": "prefix"}
"""A setting that context calls otherwise."""
NOT_REMEMBERED = ("yard",)
"""It names the yard; the others are remembered by it."""


def of_words(words: Iterable[str]) -> dict[str, str]:
    """Read each KEY=VALUE of `-c`; the last of a key counts. Raises ValueError naming the key at fault."""
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise ValueError(f"-c {word}: say KEY=VALUE, as in -c monthly_dollars=500")
        read(key, value)
        found[key] = value
    return found


def read(key: str, value: object) -> Any:
    """Return the setting that this value stands for. Raises ValueError naming the key."""
    refuse_unknown(key)
    return READERS[key](key, value)


def refuse_unknown(key: str) -> None:
    """Raise ValueError, with the nearest known key, for a key that is no setting."""
    if key not in READERS:
        close = nearest(key, READERS)
        meant = f"did you mean {close}?" if close else f"the settings are {', '.join(READERS)}"
        raise ValueError(f"context {key}: a yard has no such setting; {meant}")


def as_word(value: object) -> str:
    """Return a value of context as `-c` has it."""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else json.dumps(value)
