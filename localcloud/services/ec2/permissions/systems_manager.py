"""Permission checks of Systems Manager's requests on EC2 instances."""

from __future__ import annotations

from localcloud.services.ec2.actions.template import Parameters
from localcloud.services.ec2.permissions.resources import (
    arn,
)
from localcloud.services.ec2.store import records
from localcloud.services.ec2.store.records import LOCK
from localcloud.services.iam.checks import Check
from localcloud.services.iam.expansion import document_arn
from localcloud.services.iam.requests import Request


def _send_command(request: Request, base: Check) -> list[Check]:
    """Check the document and every instance of the command, named directly or by tags."""
    asked = request.fields()
    document = Check(request.action, document_arn(str(asked.get("DocumentName", ""))), base.context)
    return [document, *(_on_host(request.action, i, base) for i in _hosts_of(asked))]


def _start_session(request: Request, base: Check) -> list[Check]:
    asked = request.fields()
    document = str(asked.get("DocumentName") or "SSM-SessionManagerRunShell")
    # AWS checks the document of a session only if it is named or a policy requires it; here always
    checked = Check(base.action, base.resource, {**base.context, "ssm:sessiondocumentaccesscheck": "true"})
    return [
        _on_host(request.action, str(asked.get("Target", "")), checked),
        Check(request.action, document_arn(document), checked.context),
    ]


def _on_host(action: str, instance_id: str, base: Check) -> Check:
    tags = _tags_of_hosts().get(instance_id, {}).items()
    tag_conditions = {
        f"{prefix}:resourcetag/{key}".lower(): value for key, value in tags for prefix in ("aws", "ssm")
    }
    return Check(action, arn("instance", instance_id), {**base.context, **tag_conditions})


def _hosts_of(asked: Parameters) -> list[str]:
    """Return the instances of a SendCommand: by id, or those with all of the tags."""
    ids = list(asked.get("InstanceIds") or [])
    targets = [target for target in asked.get("Targets") or [] if isinstance(target, dict)]
    for target in targets:
        if str(target.get("Key", "")).lower() == "instanceids":
            ids += target.get("Values") or []
    wanted = {
        t["Key"][4:]: t.get("Values") or [] for t in targets if str(t.get("Key", "")).startswith("tag:")
    }
    if wanted:
        ids += [
            instance_id
            for instance_id, tags in _tags_of_hosts().items()
            if all(tags.get(key) in values for key, values in wanted.items())
        ]
    return list(dict.fromkeys(ids))


def _tags_of_hosts() -> dict[str, dict[str, str]]:
    """Return the tags of every instance of this account and region."""
    with LOCK:
        tags = records.backend().tags
        return {one.id: dict(tags.get(one.id, {})) for one in records.instances()}


SYSTEMS_MANAGER_CHECKS = {"ssm:SendCommand": _send_command, "ssm:StartSession": _start_session}
"""Actions of another service on EC2's instances."""
