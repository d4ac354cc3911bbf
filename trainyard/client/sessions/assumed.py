"""A session of boto3 in a role that the caller assumes. Its credentials are renewed before they expire."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import boto3
from botocore.credentials import RefreshableCredentials
from botocore.session import get_session

from trainyard.client.identity import ROOT, caller_name
from trainyard.client.session import Session

if TYPE_CHECKING:
    from collections.abc import Mapping

NOT_IN_NAMES = re.compile(r"[^\w+=,.@-]", re.ASCII)
MOST_CHARACTERS = 64


@dataclass(frozen=True)
class _Resolver:
    """The credentials in place of those that boto3 would look for."""

    credentials: RefreshableCredentials

    def load_credentials(self) -> RefreshableCredentials:
        return self.credentials


def assume(session: Session, role: str) -> Session:
    """Return a session in the role, under the caller's name. The account's root, which may do everything and assume no
    role, keeps its own session. Raise Denied."""
    caller = caller_name(session)
    if caller == ROOT:
        return session
    name = NOT_IN_NAMES.sub("-", caller.rpartition(":")[2])[:MOST_CHARACTERS]

    def refresh() -> Mapping[str, Any]:
        found = session.client("sts").assume_role(RoleArn=role, RoleSessionName=f"{name:_<2}")["Credentials"]
        return {
            "access_key": found["AccessKeyId"],
            "secret_key": found["SecretAccessKey"],
            "token": found["SessionToken"],
            "expiry_time": found["Expiration"].isoformat(),
        }

    renewed = RefreshableCredentials.create_from_metadata(refresh(), refresh, method="sts-assume-role")
    core = get_session()
    core.register_component("credential_provider", _Resolver(renewed))
    return Session(
        boto3.Session(botocore_session=core, region_name=session.region), session.endpoint, session.patient
    )
