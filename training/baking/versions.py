"""Compare the versions that were found with the required ones. Pure."""

import re

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from training.baking.results import Finding, failed, passed

LEAST_SSM_AGENT = "3.3.2746.0"
"""The first version that passes parameters as environment variables (interpolationType ENV_VAR)."""
DOTTED = re.compile(r"\d+(?:\.\d+)+")


def fits(what: str, found: str, asked: str) -> Finding:
    """Compare a version with the recipe's requirement `asked`, in pip's format; empty for none."""
    if not asked:
        return passed(f"{what} {found}; the recipe does not require a version")
    try:
        is_asked_for = SpecifierSet(asked).contains(Version(found), prereleases=True)
    except (InvalidSpecifier, InvalidVersion) as error:
        return failed(f"{what} {found} cannot be compared with the recipe's {asked!r}: {error}")
    if is_asked_for:
        return passed(f"{what} {found} is {asked}")
    return failed(
        f"{what} is {found}, but the recipe requires {asked}: change the recipe, or the version that Trainyard pins in "
        "requirements/host.txt"
    )


def ssm_agent(output: str | None, *, handed_over: bool) -> Finding:
    """Check the agent's version in the `output` of `amazon-ssm-agent -version` (None without the command).
    `handed_over` is True if a parameter of the SSM document arrived as an environment variable."""
    found = DOTTED.search(output or "")
    if found is None:
        if handed_over:
            return passed(
                f"parameters arrive as environment variables, so the agent is {LEAST_SSM_AGENT} or newer; the host has "
                "no command amazon-ssm-agent that prints its version"
            )
        return failed(
            f"no command amazon-ssm-agent prints its version, and the agent passes no parameters: it must be "
            f"{LEAST_SSM_AGENT} or newer; start from a newer base image"
        )
    if Version(found[0]) < Version(LEAST_SSM_AGENT):
        return failed(
            f"the Systems Manager agent is {found[0]}, but the SSM documents need {LEAST_SSM_AGENT} or newer: start "
            "from a newer base image, or update the agent in the recipe's commands"
        )
    return passed(f"Systems Manager agent {found[0]}")
