"""File systems of Amazon EFS and FSx for Lustre as data: as a job file names them, and as Admit pins them."""

import re
from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from trainyard.values.lazy import dataclass

ID = r"fs-[0-9a-f]{8,40}"
ACCESS_POINT = r"fsap-[0-9a-f]{8,40}"


class FileSystemKind(StrEnum):
    """The service of a file system, as its source in a job file begins."""

    EFS = "efs"
    FSX = "fsx"

    @property
    def service(self) -> str:
        return SERVICES[self]

    @property
    def ports(self) -> tuple[tuple[int, int], ...]:
        """Return the first and the last port of each range that hosts need."""
        return PORTS[self]


SERVICES = {FileSystemKind.EFS: "Amazon EFS", FileSystemKind.FSX: "Amazon FSx for Lustre"}
PORTS = {FileSystemKind.EFS: ((2049, 2049),), FileSystemKind.FSX: ((988, 988), (1018, 1023))}
"""docs.aws.amazon.com: efs/latest/ug/network-access.html, fsx/latest/LustreGuide/limit-access-security-groups.html"""
SCHEMES = tuple(f"{kind}://" for kind in FileSystemKind)


class Client(StrEnum):
    """The software of an image that mounts file systems of a service."""

    EFS = "efs"
    LUSTRE = "lustre"


CLIENTS = {FileSystemKind.EFS: Client.EFS, FileSystemKind.FSX: Client.LUSTRE}


class Access(StrEnum):
    """The use of the files of a data entry by programs."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True)
class FolderOfFileSystem:
    """A folder of a file system, as in `efs://fs-0123456789abcdef0/team/`."""

    kind: FileSystemKind
    id: str
    path: str
    """The folder below the root of the file system, or of its access point: empty, or ending in `/`."""

    @property
    def uri(self) -> str:
        return f"{self.kind}://{self.id}/{self.path}"


def folder_of(source: str) -> FolderOfFileSystem | None:
    """Return the folder that a source of data names, or None for data in S3."""
    found = re.fullmatch(rf"({'|'.join(FileSystemKind)})://({ID})/(.*)", source, re.ASCII | re.DOTALL)
    return FolderOfFileSystem(FileSystemKind(found[1]), found[2], found[3]) if found else None


@dataclass(frozen=True, kw_only=True)
class FileSystem:
    """A file system as Admit found it, for the plan and for the hosts."""

    addresses: Mapping[str, str] = field(default_factory=dict)
    """The addresses of its mount targets (for FSx its DNS name), by Availability Zone."""
    unreachable: Mapping[str, str] = field(default_factory=dict)
    """The reason for each other zone of the yard, a sentence."""
    access_point: str = ""
    """The access point of Amazon EFS through which hosts mount it, or empty."""
    mount_name: str = ""
    """The name that Lustre mounts, or empty for EFS."""
    groups: tuple[str, ...] = ()
    """The security groups of its mount targets or network interfaces."""
