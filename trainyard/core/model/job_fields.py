"""Kinds of values for job files, and partly for recipes: names, instance types and S3 URIs."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from trainyard.core.model.images import tensorflow_releases
from trainyard.core.model.instance_types import all_types, catalog, cpu_types
from trainyard.core.model.yard import data_buckets
from trainyard.values.fields import Count, Kind, Several, Text, whole
from trainyard.values.lazy import dataclass
from trainyard.values.text import has_controls
from trainyard.values.validation import BareWord, Section, any_of, did_you_mean, show_value

NAME = r"[a-z][a-z0-9-]{0,39}"
RUN_ID = r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}"
"""The ids that the SSM documents for start and stop accept."""
MOST_TYPES = 10
MOST_GIB = 16_384
"""The largest gp3 volume."""
PLACEHOLDER = "BUCKET"
HERE = r"\.{1,2}(?:/.*)?"
"""A path relative to the job file, which `trainyard submit` uploads."""
FROM_GIT = r"git\+(?:https?|ssh|file)://(?!.*@-)\S+"
"""A program in a git repository, which `trainyard submit` clones and uploads."""
CONTROL = r"\u0000-\u001f\u007f-\u009f"


@dataclass(repr=False, eq=False)
class TypeName(Kind[str]):
    """The name of an EC2 instance type."""

    known: Callable[[], tuple[str, ...]]
    """A function that returns the allowed types."""
    called: str
    others: str = ""
    """The fault of types of the catalog that are not allowed."""

    @property
    def words(self) -> str:
        return self.called

    def schema(self) -> dict[str, Any]:
        return {"enum": list(self.known())}

    def problem(self, value: object) -> str | None:
        known = self.known()
        if value in known:
            return None
        if isinstance(value, str) and value in catalog().types:
            return f"{show_value(value)} {self.others}"
        return f"{show_value(value)} is not {self.words} in the catalog{did_you_mean(value, known)}"


def instance_types(each: TypeName, *, least: int, named: str) -> Several[str]:
    """Return the kind of a list of different instance types."""
    named = f"{least} to {MOST_TYPES} different EC2 instance types{named}"
    return Several(each=each, named=named, least=least, most=MOST_TYPES)


ANY_TYPES = instance_types(TypeName(all_types, "an EC2 instance type"), least=1, named="")
CPU_TYPES = instance_types(
    TypeName(
        cpu_types,
        "an EC2 instance type without a GPU",
        "has a GPU, which these roles would not use; it belongs in instance_types",
    ),
    least=0,
    named=" without a GPU",
)
DISK_GIB = Count(least=1, most=MOST_GIB, because="the size of the root disk in GiB")


MOST_ZONES = 10
ZONES = Several(
    each=Text(r"[a-z0-9-]{1,60}", "the name of an Availability Zone, as in us-east-1a"),
    named=f"1 to {MOST_ZONES} different Availability Zones",
    least=1,
    most=MOST_ZONES,
)


RANGE = ("min", "max")


@dataclass(kw_only=True, repr=False, eq=False)
class CountOrRange(Kind[int | Mapping[str, int]]):
    """A whole number, or a mapping with the least and the most: `{min: 2, max: 8}`."""

    count: Count

    @property
    def words(self) -> str:
        return f"{self.count.words}, or a mapping with the keys {any_of(RANGE)}"

    def schema(self) -> dict[str, Any]:
        number = {name: value for name, value in self.count.schema().items() if name != "type"}
        ends = dict.fromkeys(RANGE, self.count.schema())
        inside = {"properties": ends, "additionalProperties": False, "required": list(RANGE)}
        return {"type": ["integer", "object"], **number, **inside}

    def problem(self, value: object) -> str | None:
        return self.count.problem(value)

    def read_present(self, section: Section, key: str, default: Any) -> Any:
        if not isinstance(section.values.get(key), Mapping):
            return super().read_present(section, key, default)
        before, inside = len(section.faults), section.section(key, RANGE)
        for end in RANGE:
            if not inside.has(end):
                inside.fault(end, self.count.missing)
        least, most = (self.count.read(inside, end, default) for end in RANGE)
        if len(section.faults) > before:
            return default
        if least > most:
            section.fault(key, f"min is {least}, which is above max, {most}; min up to max is allowed")
            return default
        return least if least == most else {"min": least, "max": most}


@dataclass(repr=False, eq=False)
class ImageName(Kind[str | Mapping[str, str]]):
    """The image of a job: its name, or the version of its TensorFlow."""

    pattern: str
    allowed: str
    """The pattern in words."""

    @property
    def words(self) -> str:
        return f'{self.allowed}; or {{tensorflow: "VERSION"}}, as in {{tensorflow: "2.18"}}'

    def schema(self) -> dict[str, Any]:
        version = {"type": "string", "pattern": whole(tensorflow_releases.VERSION)}
        by_version = {"properties": {"tensorflow": version}, "required": ["tensorflow"]}
        more = {"additionalProperties": False}
        return {"type": ["string", "object"], "pattern": whole(self.pattern), **by_version, **more}

    def problem(self, value: object) -> str | None:
        if not isinstance(value, Mapping):
            return Text(self.pattern, self.words).problem(value)
        if list(value) != ["tensorflow"]:
            found = any_of(tuple(map(str, value))) or "none"
            return f"found a mapping with the keys {found}; only tensorflow is allowed"
        version = value["tensorflow"]
        if isinstance(version, int | float) and not isinstance(version, bool):
            return f'found {show_value(version)}; text is allowed: write it in quotes, as in {{tensorflow: "2.18"}}'
        allowed = 'a version in quotes, as in {tensorflow: "2.18"}'
        return Text(tensorflow_releases.VERSION, allowed).problem(version)


@dataclass(kw_only=True, repr=False, eq=False)
class Uri(Kind[str]):
    """An S3 URI of the yard's bucket, without the placeholder, or of another bucket. references.py checks whether the
    yard may read another bucket."""

    folder: str
    ends: tuple[str, ...]

    @property
    def words(self) -> str:
        return (
            f"an S3 URI in the yard's bucket, {self.place}, or in one of its data_buckets, s3://NAME/..., ending in "
            f"{' or '.join(self.ends)}"
        )

    @property
    def missing(self) -> str:
        return f"found nothing; s3://{PLACEHOLDER}/{self.folder}/.../ is allowed"

    @property
    def place(self) -> str:
        return f"s3://{PLACEHOLDER}/{self.folder}/..."

    def schema(self) -> dict[str, Any]:
        part = rf"(?!\.{{1,2}}(?:/|$))[^/\\{CONTROL}]+"
        ends = "|".join(re.escape(end) for end in self.ends)
        last = "" if self.ends == ("/",) else rf"[^/\\{CONTROL}]*(?:{ends})"
        ours = rf"{PLACEHOLDER}/{self.folder}/(?:{part}/)*{last}"
        other = rf"{data_buckets.BUCKET}/(?:{part}/){'+' if self.ends == ('/',) else '*'}{last}"
        here = f"{HERE}|{FROM_GIT}" if self.is_of_programs else HERE
        return {"type": "string", "pattern": whole(rf"s3://(?:{ours}|{other})|{here}")}

    @property
    def is_of_programs(self) -> bool:
        return self.folder == "programs"

    def problem(self, value: object) -> str | None:
        if is_here(value) or (self.is_of_programs and is_from_git(value)):
            where = "is on the computer that submits" if is_here(value) else "is in a git repository"
            return (
                f"{show_value(value)} {where}: `trainyard submit` uploads it; in a file that is uploaded by hand, "
                f"{self.words} is allowed"
            )
        hint = _as_path(value, self.is_of_programs) if isinstance(value, str) else ""
        problem = Text(r"(?s)s3://[^/]+/.*", self.words).problem(value)
        return f"{problem}{hint}" if problem else None

    def read_present(self, section: Section, key: str, default: Any) -> Any:
        uri = super().read_present(section, key, None)
        if uri is None:
            return default
        bucket, _, path = uri.removeprefix("s3://").partition("/")
        problem = self._problem(bucket, path, section.bucket)
        if problem:
            section.fault(key, f"{show_value(uri)} {problem}")
        bucket = section.bucket if bucket == PLACEHOLDER else bucket
        return default if problem else f"s3://{bucket}/{path}"

    def _problem(self, bucket: str, path: str, ours: str) -> str | None:
        folder = f"{self.folder}/"
        if bucket not in (PLACEHOLDER, ours):
            if not re.fullmatch(data_buckets.BUCKET, bucket, re.ASCII):
                return f"does not have a valid bucket name; the yard's bucket is {self.place}"
            if not path:
                return "names a whole bucket; name a folder or an object of it"
        elif not path.startswith(folder) or (path == folder and self.ends != ("/",)):
            return f"is not under {folder}; hosts read only {self.place} here"
        if not is_plain_key(path):
            return "has an empty, . or .. part, a backslash or a control character in its path"
        if path.endswith(self.ends):
            return None
        hint = f"; did you mean {show_value(f's3://{bucket}/{path}/')}?" if self.ends == ("/",) else ""
        return f"does not end in {' or '.join(self.ends)}{hint}"


def is_here(value: object) -> bool:
    """Return True for a path relative to the job file, as opposed to a location in the bucket."""
    return isinstance(value, str) and re.fullmatch(HERE, value) is not None


def is_from_git(value: object) -> bool:
    """Return True for a program in a git repository, as in git+https://HOST/PATH@REF."""
    return isinstance(value, str) and re.fullmatch(FROM_GIT, value) is not None


def _as_path(value: str, is_program: bool) -> str:
    """Return the hint for a probable path relative to the job file, or a probable repository."""
    if "://" not in value and re.fullmatch(r"[^@\s]+@[^:\s]+:\S+", value) and is_program:
        user, _, path = value.partition(":")
        return f'; for a git repository write "git+ssh://{user}/{path}"'
    if value.startswith(("https://", "http://", "ssh://", "file://")):
        return f'; for a git repository write "git+{value}"' if is_program else ""
    if "://" in value or not value or isinstance(value, BareWord):
        return ""
    if value.startswith(("/", "~")):
        return "; a folder of this computer is written as seen from the job file, as in ./src or ../src"
    return f'; for the folder beside the job file write "./{value}"'


def is_plain_key(key: str) -> bool:
    parts = key.removesuffix("/").split("/")
    return (
        not has_controls(key)
        and "\\" not in key
        and len(key.encode()) <= 1024
        and not {"", ".", ".."} & set(parts)
    )


TARGET = r"me|((slack|teams|discord|url):)?(?!(me|by)$)[a-z][a-z0-9-]{0,39}"
"""A webhook in `notify` (trainyard/protocol/webhooks.py). Here, because most functions read jobs and no webhooks."""
TARGET_NAMED = "me, or the name of a webhook, with its kind or without it, as in slack:ml"
MOST_TARGETS = 10
