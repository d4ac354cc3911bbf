"""File systems that the runs of a yard may mount, as listed in the setting `file_systems`."""

import json
import re
from collections.abc import Iterable, Mapping

from trainyard.protocol.file_systems import ACCESS_POINT, ID, Access, FileSystemKind, FolderOfFileSystem
from trainyard.values.lazy import dataclass
from trainyard.values.validation import did_you_mean, show_value

WORD = rf"(?:(efs|fsx)://)?({ID})(?::(read|write))?(?::({ACCESS_POINT}))?"
KEYS = ("id", "access", "access_point")
EXPECTED = (
    "expected file systems, as a list of mappings like {id: fs-0123456789abcdef0, access: write, access_point: "
    "fsap-0123456789abcdef0}, or as words like fs-0123456789abcdef0:write:fsap-0123456789abcdef0 with commas between "
    "them (fsx://fs-... for FSx for Lustre), or nothing"
)


@dataclass(frozen=True)
class ListedFileSystem:
    """A file system of the setting. Without a scheme, its id is of Amazon EFS."""

    kind: FileSystemKind
    id: str
    access: Access = Access.READ
    """The use by programs: `write` includes `read`."""
    access_point: str = ""
    """The access point of Amazon EFS through which hosts mount it; default: none."""

    @classmethod
    def of(cls, text: str) -> "ListedFileSystem":
        """Parse one word of the setting. Raise ValueError for an invalid word."""
        found = re.fullmatch(WORD, text, re.ASCII)
        if found is None:
            raise ValueError(f"{text} is not a file system")
        kind = FileSystemKind(found[1] or FileSystemKind.EFS)
        if kind is FileSystemKind.FSX and found[4]:
            raise ValueError(f"{text}: FSx for Lustre has no access points; {found[4]} belongs to Amazon EFS")
        return cls(kind, found[2], Access(found[3] or Access.READ), found[4] or "")

    @classmethod
    def of_mapping(cls, given: Mapping[str, object]) -> "ListedFileSystem":
        """Read a mapping of the setting. Raise ValueError for an invalid one."""
        for key in given:
            if key not in KEYS:
                raise ValueError(
                    f"unknown key {show_value(key)}{did_you_mean(str(key), KEYS)}; allowed are {', '.join(KEYS)}"
                )
        if "id" not in given:
            raise ValueError("id is missing")
        words = [str(given["id"]), str(given.get("access", Access.READ))]
        return cls.of(
            ":".join([*words, *([str(given["access_point"])] if given.get("access_point") else [])])
        )

    def holds(self, folder: FolderOfFileSystem) -> bool:
        """Return True if the folder is in this file system."""
        return (self.kind, self.id) == (folder.kind, folder.id)

    def allows(self, access: Access) -> bool:
        return access is Access.READ or self.access is Access.WRITE

    def __str__(self) -> str:
        """Return the file system as a word of the setting."""
        scheme = "" if self.kind is FileSystemKind.EFS else f"{self.kind}://"
        point = f":{self.access_point}" if self.access_point else ""
        return f"{scheme}{self.id}:{self.access}{point}"


def read_file_systems(given: object) -> tuple[ListedFileSystem, ...]:
    """Read the setting: a list of mappings, JSON of such a list, or words with commas between them. Raise
    ValueError for an invalid one."""
    if isinstance(given, str) and given.strip().startswith("["):
        given = json.loads(given)
    if isinstance(given, str):
        words = [word.strip() for word in given.split(",")] if given.strip() else []
        found = [ListedFileSystem.of(word) for word in words]
    elif isinstance(given, Iterable) and not isinstance(given, Mapping):
        found = [_read_one(each) for each in given]
    else:
        raise ValueError(f"{show_value(given)} is not a list")  # noqa: TRY004 - its value is wrong, not its type
    ids = [(each.kind, each.id) for each in found]
    if twice := next((each for each in ids if ids.count(each) > 1), None):
        raise ValueError(f"{twice[0]}://{twice[1]} is listed twice")
    return tuple(found)


def _read_one(given: object) -> ListedFileSystem:
    return (
        ListedFileSystem.of_mapping(given) if isinstance(given, Mapping) else ListedFileSystem.of(str(given))
    )
