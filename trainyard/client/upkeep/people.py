"""Who may use a yard: its policies for people, attached to somebody of IAM."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainyard.client.errors import NobodyFound

if TYPE_CHECKING:
    from trainyard.client.deployment import Deployment

WHO = re.compile(r"(?:arn:[^:]+:iam::\d+:)?(role|user|group)/(?:.*/)?([\w+=,.@-]+)")


def grant(yard: Deployment, who: str, levels: Sequence[str]) -> list[str]:
    """Attach the policies of these levels; answers their ARNs. Twice is fine. Raises NobodyFound."""
    named = WHO.fullmatch(who)
    if not named:
        raise NobodyFound(
            f"{who!r} names nobody", "it is role/NAME, user/NAME or group/NAME", "name one of these"
        )
    kind, name = named.groups()
    iam, arns = yard.session.client("iam"), [yard.policies[level] for level in levels]
    attach = {
        "role": iam.attach_role_policy,
        "user": iam.attach_user_policy,
        "group": iam.attach_group_policy,
    }
    for arn in arns:
        try:
            attach[kind](**{f"{kind.capitalize()}Name": name}, PolicyArn=arn)
        except iam.exceptions.NoSuchEntityException as error:
            means = f"the account {yard.account} has none of that name"
            raise NobodyFound(f"there is no {kind} {name}", means, f"aws iam list-{kind}s") from error
    return arns
