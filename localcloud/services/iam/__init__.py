"""IAM, enforced: every request under its caller's policies, every service's act under the role it was given.

ministack verifies signatures and evaluates policies. Added here: a request is split into every
(action, resource) pair AWS checks (`expansion`), iam:PassRole among them, each with the facts its conditions
ask for; and what a service does on somebody's behalf is checked under that role (`roles`).
"""

from __future__ import annotations

from localcloud.services.iam import enforcement, service_linked_roles, variables


def install() -> None:
    """Have every request checked for all of its pairs, with policy variables, and service-linked roles under AWS's
    names."""
    enforcement.install()
    variables.install()
    service_linked_roles.install()
