"""IAM enforcement: requests are checked under their caller's policies, and actions of services under their role.

ministack computes signatures and evaluates policies. This package refuses unsigned requests (`signatures`), splits a
request into all (action, resource) pairs that AWS checks (`expansion`), including iam:PassRole, with the condition keys
of each, and checks each action of a service under its role (`roles`).
"""

from __future__ import annotations

from localcloud.base.root_key import RootKey
from localcloud.services.iam import delay, enforcement, service_linked_roles, signatures, variables, wildcards


def install(root: RootKey) -> None:
    """Verify every request, check all of its pairs with policy variables, and give service-linked roles AWS's names."""
    signatures.install(root)
    enforcement.install()
    delay.install()
    variables.install()
    wildcards.install()
    service_linked_roles.install()
