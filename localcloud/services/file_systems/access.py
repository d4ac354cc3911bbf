"""The resource that IAM checks for a request to EFS: a file system or an access point."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Mapping
from typing import Any

from localcloud.patches import MINISTACK
from localcloud.services.ec2.store import records
from localcloud.services.file_systems import store
from localcloud.services.iam.requests import Request

EFS = "elasticfilesystem"
IN_PATH = re.compile(r"/(file-systems|mount-targets|access-points)/([^/]+)")


def install() -> None:
    """Wrap ministack's resource of a request."""
    stock = MINISTACK.stock("core.iam_actions:extract_resource_arn")

    def resource(
        service: str, method: str, path: str, headers: Mapping[str, str], body: bytes, query: Any, *where: str
    ) -> str:
        if service != EFS:
            return str(stock(service, method, path, headers, body, query, *where))
        return arn(*_named(path, Request(service, "", body, query or {})), *where)

    MINISTACK.replace("core.iam_actions:extract_resource_arn", resource)


def arn(kind: str, name: str, region: str, account: str) -> str:
    """Return the ARN of a file system or an access point."""
    return f"arn:aws:elasticfilesystem:{region}:{account}:{kind}/{name}"


def _named(path: str, request: Request) -> tuple[str, str]:
    """Return the kind and the id of the resource that a request names; `*` for all file systems."""
    named = {kind: urllib.parse.unquote(name) for kind, name in IN_PATH.findall(path)}
    fields = request.fields()
    system = named.get("file-systems") or fields.get("FileSystemId") or request.parameter("FileSystemId")
    target = named.get("mount-targets") or request.parameter("MountTargetId")
    point = named.get("access-points") or request.parameter("AccessPointId")
    if target:
        with records.LOCK:
            found = store.efs().mount_targets_by_id.get(str(target))
        system = found.file_system_id if found else "*"
    if point and not system:
        return "access-point", str(point)
    return "file-system", str(system or "*")
