"""IAM, enforced: every request under its caller's policies, every service's act under the role it was given.

ministack computes signatures and evaluates policies. Added here: no request passes unsigned (`signatures`), a request
is split into every (action, resource) pair AWS checks (`expansion`), iam:PassRole among them, each with the facts its
conditions ask for; and each act of a service is checked under the role it was given (`roles`).
"""

from __future__ import annotations

from localcloud.base.root_key import RootKey
from localcloud.services.iam import enforcement, service_linked_roles, signatures, variables, wildcards


def install(root: RootKey) -> None:
    """Verify every request, check all of its pairs with policy variables, and give service-linked roles AWS's names."""
    signatures.install(root)
    enforcement.install()
    variables.install()
    wildcards.install()
    service_linked_roles.install()
