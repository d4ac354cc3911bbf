"""Current details for a host's metadata service: tags, interruption notice, and the role's credentials."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from ministack.core.responses import request_scope
from ministack.services import iam as ministack_iam
from ministack.services import sts as ministack_sts

from localcloud.machine.hypervisor import InstanceDetails
from localcloud.services.ec2.capacity.pools import market_of
from localcloud.services.ec2.instances.lifecycle import role_of
from localcloud.services.ec2.store.records import LOCK, backend, find_anywhere, here

LIFETIME = timedelta(hours=6)
RENEW_BEFORE = timedelta(minutes=15)

_minting = threading.Lock()
_minted: dict[str, tuple[str, dict[str, str]]] = {}


def details_of(instance_id: str) -> InstanceDetails:
    """Return the details of an instance, which are empty once it is gone.

    The hypervisor calls this for each request.
    """
    found = find_anywhere(instance_id)
    if found is None:
        return InstanceDetails()
    with request_scope(found.owner_id, found.region_name), LOCK:
        return _details(found, found.owner_id)


def _details(found: Any, account: str) -> InstanceDetails:
    profile = found.iam_instance_profile or {}
    notice = here().notices.get(found.id)
    tags = dict(backend().tags.get(found.id, {}))
    return InstanceDetails(
        tags={key: value for key, value in tags.items() if not key.startswith("aws:")},
        shows_tags=found.metadata_options.instance_metadata_tags == "enabled",
        spot_action=(notice.action, notice.at) if notice is not None else None,
        credentials=credentials_of(found, account),
        is_spot=market_of(found) == "spot",
        account=account,
        instance_profile_arn=profile.get("Arn"),
        instance_profile_id=profile.get("Id"),
    )


def credentials_of(found: Any, account: str) -> dict[str, str] | None:
    """Return a session of the instance's role, or None. The session stays the same until shortly before it expires.

    As on AWS, its name is the instance id, which identifies the host in policies and logs.
    """
    role = role_of(found.iam_instance_profile)
    if role is None or ministack_iam._roles.get(role) is None:
        return None
    with _minting:
        known = _minted.get(found.id)
        if (
            known is not None
            and known[0] == role
            and _fresh(known[1])
            and known[1]["AccessKeyId"] in ministack_sts._sessions
        ):
            return known[1]
        for over in [name for name, (_, given) in _minted.items() if not _fresh(given)]:
            del _minted[over]
        minted = _mint(role, found.id, account)
        _minted[found.id] = (role, minted)
        return minted


def _fresh(credentials: dict[str, str]) -> bool:
    ends = datetime.strptime(credentials["Expiration"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    return ends - datetime.now(UTC) > RENEW_BEFORE


def _mint(role: str, instance_id: str, account: str) -> dict[str, str]:
    now, record = datetime.now(UTC), ministack_iam._roles[role]
    key, secret, token = (
        ministack_iam._gen_session_access_key(),
        ministack_iam._gen_secret(),
        ministack_iam._gen_session_token(),
    )
    ministack_sts.register_session(
        key,
        {
            "Arn": f"arn:aws:sts::{account}:assumed-role/{role}/{instance_id}",
            "UserId": f"{record.get('RoleId', role)}:{instance_id}",
            "SecretAccessKey": secret,
            "SessionToken": token,
            "Expiration": time.time() + LIFETIME.total_seconds(),
        },
    )
    return {
        "Code": "Success",
        "Type": "AWS-HMAC",
        "LastUpdated": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "AccessKeyId": key,
        "SecretAccessKey": secret,
        "Token": token,
        "Expiration": (now + LIFETIME).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
