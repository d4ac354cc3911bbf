"""Grants: the yard's policies for users, attached to roles, users and groups of IAM."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainyard.client.errors import HolderNotFound

if TYPE_CHECKING:
    from trainyard.client.deployment import Deployment
    from trainyard.client.session import Session

WHO = re.compile(r"(?:arn:[^:]+:iam::\d+:)?(role|user|group)/(?:.*/)?([\w+=,.@-]+)")
POLICY = "AWS::IAM::ManagedPolicy"


@dataclass(frozen=True)
class Holder:
    """A role, user or group of IAM."""

    kind: str
    name: str

    @classmethod
    def of(cls, who: str) -> Holder:
        """Parse `role/NAME`, `user/NAME`, `group/NAME` or the ARN of one. Raise NobodyFound for other texts."""
        named = WHO.fullmatch(who)
        if not named:
            raise HolderNotFound(
                f"{who!r} is not a role, user or group",
                "nothing was changed",
                "use role/NAME, user/NAME or group/NAME, as listed by `aws iam list-roles` or `list-users`",
            )
        return cls(*named.groups())

    @property
    def words(self) -> dict[str, str]:
        """Return the parameter that identifies the holder in IAM's calls."""
        return {f"{self.kind.capitalize()}Name": self.name}

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True)
class Granted:
    """The result of a grant: the ARNs that the holder has now, and the detached ARNs of other levels."""

    policies: Sequence[str]
    detached: Sequence[str]


def grant(yard: Deployment, who: str, levels: Sequence[str]) -> Granted:
    """Give a holder exactly the policies of these levels, and detach the yard's other policies. Repeating it is safe.
    Raise NobodyFound for an unknown holder."""
    holder, iam = Holder.of(who), yard.session.client("iam")
    wanted = [yard.policies[level] for level in levels]
    had = _find_attached(yard, holder)
    for arn in wanted:
        _call(iam, "attach", holder, arn)
    return Granted(wanted, _detach(iam, holder, had - set(wanted)))


def revoke(yard: Deployment, who: str) -> list[str]:
    """Detach all of the yard's policies from a holder and return their ARNs. Raise NobodyFound for an unknown
    holder."""
    holder = Holder.of(who)
    return _detach(yard.session.client("iam"), holder, _find_attached(yard, holder))


def grants(session: Session, stacks: Iterable[str]) -> dict[str, list[Holder]]:
    """Return the holders of each managed policy of these stacks, by its ARN. CloudFormation cannot delete an attached
    policy."""
    formation = session.client("cloudformation").get_paginator("list_stack_resources")
    arns = [
        str(resource["PhysicalResourceId"])
        for stack in stacks
        for page in formation.paginate(StackName=stack)
        for resource in page["StackResourceSummaries"]
        if resource["ResourceType"] == POLICY and resource.get("PhysicalResourceId")
    ]
    return {arn: found for arn in arns if (found := list(_holders(session, arn)))}


def detach(session: Session, held: dict[str, list[Holder]]) -> None:
    """Detach these policies from their holders."""
    iam = session.client("iam")
    for arn, holders in held.items():
        for holder in holders:
            _detach(iam, holder, {arn})


def _find_attached(yard: Deployment, holder: Holder) -> set[str]:
    """Return the yard's policies that the holder has. Raise NobodyFound for an unknown holder."""
    iam = yard.session.client("iam")
    pages = iam.get_paginator(f"list_attached_{holder.kind}_policies").paginate(**holder.words)
    try:
        arns = {str(each["PolicyArn"]) for page in pages for each in page["AttachedPolicies"]}
    except iam.exceptions.NoSuchEntityException as error:
        raise HolderNotFound(
            f"the {holder.kind} {holder.name} does not exist",
            f"the account {yard.account} has no {holder.kind} of this name; nothing was changed",
            f"aws iam list-{holder.kind}s",
        ) from error
    return arns & set(yard.policies.values())


def _holders(session: Session, arn: str) -> Iterator[Holder]:
    iam = session.client("iam")
    try:
        for page in iam.get_paginator("list_entities_for_policy").paginate(PolicyArn=arn):
            for kind in ("role", "user", "group"):
                for each in page[f"Policy{kind.capitalize()}s"]:
                    yield Holder(kind, each[f"{kind.capitalize()}Name"])
    except iam.exceptions.NoSuchEntityException:  # an earlier attempt has deleted it
        return


def _detach(iam: Any, holder: Holder, arns: Collection[str]) -> list[str]:
    for arn in sorted(arns):
        _call(iam, "detach", holder, arn)
    return sorted(arns)


def _call(iam: Any, verb: str, holder: Holder, arn: str) -> None:
    getattr(iam, f"{verb}_{holder.kind}_policy")(**holder.words, PolicyArn=arn)
