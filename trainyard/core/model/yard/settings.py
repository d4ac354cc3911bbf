"""The settings of a yard by their keys in CDK context and in `-c KEY=VALUE`. Each value is read and checked here."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from trainyard.core.model import addresses
from trainyard.core.model.yard import data_buckets, file_systems, policy, registries
from trainyard.core.model.yard.data_buckets import DataBucket
from trainyard.core.model.yard.file_systems import ListedFileSystem
from trainyard.core.model.yard.policy import Policy
from trainyard.core.model.yard.registries import PullThrough, Registry
from trainyard.protocol.containers import LOGIN as SECRET_NAME
from trainyard.values.validation import InputFaults, nearest, show_value

Reader: TypeAlias = Callable[[str, object], Any]
"""A function that reads a setting from its key and its value in context. It raises ValueError with the key."""
# fmt: off
DAYS = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653)
# fmt: on
"""The retention periods that CloudWatch allows for logs, in days."""

NAME = (
    r"[A-Z][A-Za-z0-9]{0,19}",
    "the name of a yard is a capital letter and up to 19 letters or digits, like Trainyard",
)
RECIPE = r"[a-z][a-z0-9-]{0,29}", "expected the name of a recipe under images/, like gpu"
ZONE = r"[a-z]+(-[a-z0-9]+)+"
VPC, SUBNET = r"(vpc-[0-9a-f]{8,17})?", r"subnet-[0-9a-f]{8,17}"
POLICY = r"(arn:[^:]+:iam::(\d{12}|aws):policy/.+)?"
KEY = r"(arn:[^:]+:kms:[a-z0-9-]+:\d{12}:key/[0-9a-zA-Z-]+)?"
SCHEDULE = r"\s*((rate|cron)\(.+\))?\s*"
RATE = r"0*(0|100|200|300)", "expected 100, 200 or 300 MiB a second, or 0"
ADDRESS = r"([^@\s,]+@[^@\s,]+\.[^@\s,]+)?"
IMAGE = r"ami-[0-9a-f]{8,17}|/?[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*"
ENDPOINT = (
    r"(https?://[A-Za-z0-9.:\[\]-]+(/[!-~]*)?)?",
    "expected an address like https://otlp.example.com, or nothing",
)
SECRET = f"({SECRET_NAME})?"
NUMBER = r"\d{1,6}", "expected a whole number; 0 for no limit"
DOLLARS = r"\d{1,9}(\.\d{1,2})?", "expected dollars, like 500 or 99.50; 0 for none"


def _matches(pattern: str, expected: str, *, to: Callable[[str], Any] = str) -> Reader:
    def read(key: str, given: object) -> Any:
        word = str(given)
        if not re.fullmatch(pattern, word):
            raise ValueError(f"context {key}={word!r}: {expected}")
        return to(word)

    return read


def _flag(key: str, given: object) -> bool:
    word = str(given).lower()
    if word not in ("true", "false"):
        raise ValueError(f"context {key}={word!r}: expected true or false")
    return word == "true"


def _several(pattern: str, expected: str) -> Reader:
    """Return a reader of different words with commas between them."""

    def read(key: str, given: object) -> tuple[str, ...]:
        word = str(given)
        each = tuple(part.strip() for part in word.split(",")) if word.strip() else ()
        if not all(re.fullmatch(pattern, part) for part in each) or len(set(each)) < len(each):
            raise ValueError(f"context {key}={word!r}: {expected}")
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
    """Read a mapping in cdk.json, or JSON on the command line."""
    try:
        given = json.loads(given) if isinstance(given, str) else given
    except ValueError as error:
        raise ValueError(f"context {key}: {show_value(given)} is not JSON: {error}") from error
    found = policy.read_policy(given, path="policy")
    if isinstance(found, InputFaults):
        raise ValueError(f"context {'; '.join(map(str, found.faults))}")  # noqa: TRY004 - its value is wrong, not its type
    return found


def _data_buckets(key: str, given: object) -> tuple[DataBucket, ...]:
    expected = "expected buckets or folders of them, like corpus,shared/images/=arn:aws:kms:..., or nothing"
    return tuple(DataBucket.of(each) for each in _several(data_buckets.PLACE, expected)(key, given))


def _file_systems(key: str, given: object) -> tuple[ListedFileSystem, ...]:
    try:
        return file_systems.read_file_systems(given)
    except ValueError as error:
        raise ValueError(f"context {key}={show_value(given)}: {error}; {file_systems.EXPECTED}") from error


def _registries(key: str, given: object) -> tuple[Registry, ...]:
    return tuple(Registry.of(each) for each in _several(registries.PLACE, registries.EXPECTED)(key, given))


def _pull_through(key: str, given: object) -> tuple[PullThrough, ...]:
    """Read a mapping in cdk.json, or words on the command line."""
    words = (
        ",".join(f"{name}={prefix}" for name, prefix in given.items()) if isinstance(given, dict) else given
    )
    read = _several(registries.RULE, registries.RULES_EXPECTED)
    return tuple(PullThrough.of(each) for each in read(key, words))


def _networks(key: str, given: object) -> tuple[str, ...]:
    words = tuple(part.strip() for part in str(given).split(",") if part.strip())
    try:
        addresses.networks_of(words)
    except ValueError as error:
        expected = "expected networks of internal servers, like 10.0.0.0/8,192.168.7.0/24, or nothing"
        raise ValueError(f"context {key}={given!r}: {error}; {expected}") from error
    return words


COUNT = _matches(r"0*[1-9]\d*", "expected a whole number above zero", to=int)

READERS: Mapping[str, Reader] = {
    "yard": _matches(*NAME),
    "private": _flag,
    "zones": _several(ZONE, "expected different zones, like us-east-1a,us-east-1b, or nothing"),
    "vpc": _matches(VPC, "expected the id of a VPC, like vpc-0123456789abcdef0, or nothing"),
    "subnets": _several(SUBNET, "expected different ids, like subnet-0a1b2c3d,subnet-1b2c3d4e, or nothing"),
    "s3_endpoint": _flag,
    "permissions_boundary": _matches(POLICY, "expected the ARN of a managed policy, or nothing"),
    "kms_key": _matches(KEY, "expected the ARN of a key (not of an alias), or nothing"),
    "log_days": _days,
    "disposable": _flag,
    "notify": _matches(ADDRESS, "expected a mail address, like you@example.com, or nothing"),
    "base_image_parameter": _matches(
        IMAGE, "expected the name of a parameter, like /images/base, or the id of an image"
    ),
    "bake_recipe": _matches(*RECIPE),
    "bake_on_deploy": _flag,
    "bake_schedule": _matches(
        SCHEDULE, "expected rate(7 days), cron(0 3 ? * SUN *) or nothing", to=str.strip
    ),
    "look_seconds": COUNT,
    "volume_initialization_rate": _matches(*RATE, to=int),
    "keep_images": COUNT,
    "keep_days": COUNT,
    "policy": _policy,
    "monthly_dollars": _matches(*DOLLARS, to=float),
    "most_dollars_per_run": _matches(*DOLLARS, to=float),
    "most_runs": _matches(*NUMBER, to=int),
    "most_hosts": _matches(*NUMBER, to=int),
    "most_hold_hours": _matches(r"\d{1,4}(\.\d{1,2})?", "expected hours, like 24; 0 for no limit", to=float),
    "most_pool_hosts": _matches(r"0*(\d|1[0-6])", "expected 0 to 16 hosts; 0 for none", to=int),
    "model_url": _flag,
    "most_predictions_at_once": _matches(r"\d{1,4}", "expected a whole number; 0 for no reservation", to=int),
    "data_buckets": _data_buckets,
    "registries": _registries,
    "pull_through": _pull_through,
    "file_systems": _file_systems,
    "internal_webhooks": _networks,
    "otlp_endpoint": _matches(*ENDPOINT),
    "otlp_headers": _matches(SECRET, "expected the name of a secret, or nothing"),
    "nccl_check_seconds": _matches(r"\d{1,4}", "expected seconds, like 120; 0 for no check", to=int),
    "when_full": _matches("wait|refuse", "expected wait or refuse"),
    "preempt": _flag,
    "bucket": _matches(f"({data_buckets.BUCKET})?", "expected the name of a bucket, or nothing"),
    "ledger": _matches(r"([A-Za-z0-9_.-]{3,255})?", "expected the name of a table, or nothing"),
}
"""The reader of each setting, by its key in context."""
CALLED = {"yard": "prefix"}
"""Settings whose key in context differs."""
NOT_REMEMBERED = ("yard",)
"""Settings that are not saved with the yard: this one selects the yard itself."""


def read_words(words: Iterable[str]) -> dict[str, str]:
    """Read each KEY=VALUE of `-c`. The last value of a key counts. Raise ValueError with the faulty key."""
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise ValueError(f"-c {word}: expected KEY=VALUE, as in -c monthly_dollars=500")
        read(key, value)
        found[key] = value
    return found


def read(key: str, value: object) -> Any:
    """Return the setting with this value. Raise ValueError with the key."""
    refuse_unknown(key)
    return READERS[key](key, value)


def refuse_unknown(key: str) -> None:
    """Raise ValueError for an unknown key, with the nearest known one."""
    if key not in READERS:
        close = nearest(key, READERS)
        meant = f"did you mean {close}?" if close else f"the settings are {', '.join(READERS)}"
        raise ValueError(f"context {key}: a yard has no such setting; {meant}")


def as_word(value: object) -> str:
    """Return a value of context in the format of `-c`."""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else json.dumps(value)
