"""Versions: what was found against what is asked for. Pure."""

import re

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from training.baking.results import Finding, failed, passed

LEAST_SSM_AGENT = "3.3.2746.0"
"""The first that hands parameters over as environment variables (interpolationType ENV_VAR)."""
DOTTED = re.compile(r"\d+(?:\.\d+)+")


def fits(what: str, found: str, asked: str) -> Finding:
    """`asked` is the recipe's requirement, as pip writes them; empty for none."""
    if not asked:
        return passed(f"{what} {found}; the recipe asks for none in particular")
    try:
        is_asked_for = SpecifierSet(asked).contains(Version(found), prereleases=True)
    except (InvalidSpecifier, InvalidVersion) as error:
        return failed(f"{what} {found} cannot be held against the recipe's {asked!r}: {error}")
    if is_asked_for:
        return passed(f"{what} {found} is {asked}")
    return failed(
        f"{what} is {found}, the recipe asks for {asked}: change the recipe, or the version that Trainyard pins in "
        "requirements/host.txt"
    )


def ssm_agent(output: str | None, *, handed_over: bool) -> Finding:
    """`output` by `amazon-ssm-agent -version`, None where there is no such command; `handed_over`: a parameter of the
    document came as an environment variable."""
    found = DOTTED.search(output or "")
    if found is None:
        if handed_over:
            return passed(
                f"parameters come as environment variables, so it is {LEAST_SSM_AGENT} or newer; the host has no "
                "amazon-ssm-agent command that says more"
            )
        return failed(
            f"no amazon-ssm-agent says its version, and it hands over no parameters: it must be {LEAST_SSM_AGENT} or "
            "newer; start from a newer base image"
        )
    if Version(found[0]) < Version(LEAST_SSM_AGENT):
        return failed(
            f"the Systems Manager agent is {found[0]}; the documents need {LEAST_SSM_AGENT} or newer: start from a "
            "newer base image, or update the agent in the recipe's commands"
        )
    return passed(f"Systems Manager agent {found[0]}")
