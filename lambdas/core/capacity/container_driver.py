"""The NVIDIA driver that a container image needs, compared with the driver of the image of the hosts.

An image names its CUDA as CUDA_VERSION. NVIDIA's own images also have NVIDIA_REQUIRE_CUDA: alternatives between spaces,
each with conditions between commas that all hold, as in `cuda>=12.4 brand=tesla,driver>=535,driver<536`
(docs.nvidia.com/datacenter/cloud-native/container-toolkit, "Driver constraints").
"""

import re

from lambdas.core.capacity.compatibility import LEAST_DRIVER, Software, Version, version
from trainyard.protocol.containers import Manifest

CUDA_OF_BRANCH: dict[int, Version] = {
    450: (11, 0), 455: (11, 1), 460: (11, 2), 465: (11, 3), 470: (11, 4), 495: (11, 5), 510: (11, 6), 515: (11, 7),
    520: (11, 8), 525: (12, 0), 530: (12, 1), 535: (12, 2), 545: (12, 3), 550: (12, 4), 555: (12, 5), 560: (12, 6),
    565: (12, 7), 570: (12, 8), 575: (12, 9), 580: (13, 0), 590: (13, 1),
}  # fmt: skip
"""The newest CUDA of each branch of the driver (NVIDIA: CUDA Toolkit release notes, table 3)."""
CONDITION = re.compile(r"(cuda|driver)(>=|<=|<|>|=|!=)(\d+(?:\.\d+)*)")


def find_conflict(manifest: Manifest | None, software: Software) -> str | None:
    """Return why the driver of the hosts' image is too old for the container, in a sentence; None if it is not, or if
    either is unknown."""
    driver = version(software.driver)
    if manifest is None or driver is None:
        return None
    has = f"the image of the hosts has the NVIDIA driver {software.driver}"
    if manifest.requires and not _is_met(manifest.requires, driver):
        needs = _shortest(manifest.requires)
        return f"The container image requires {needs} (NVIDIA_REQUIRE_CUDA), and {has}."
    cuda = version(manifest.cuda)
    least = LEAST_DRIVER.get(cuda[0]) if cuda else None
    if least and driver < least:
        needs = ".".join(map(str, least))
        return f"The container image has CUDA {manifest.cuda}, which needs an NVIDIA driver of {needs} or newer; {has}."
    return None


def _is_met(requires: str, driver: Version) -> bool:
    """Return True if one alternative may hold. Conditions about brands are judged on the host only."""
    branches = [branch for branch in CUDA_OF_BRANCH if branch <= driver[0]]
    cuda = CUDA_OF_BRANCH[max(branches)] if branches else (0,)
    if driver[0] > max(CUDA_OF_BRANCH):
        return True  # a newer branch than this table has
    return any(
        all(_holds(condition, cuda, driver) for condition in alternative.split(","))
        for alternative in requires.split()
    )


def _holds(condition: str, cuda: Version, driver: Version) -> bool:
    found = CONDITION.fullmatch(condition)
    if found is None:
        return True
    name, relation, number = found.groups()
    wanted = version(number) or ()
    has = (cuda if name == "cuda" else driver)[: len(wanted)]
    return {
        ">=": has >= wanted, "<=": has <= wanted, "<": has < wanted, ">": has > wanted,
        "=": has == wanted, "!=": has != wanted,
    }[relation]  # fmt: skip


def _shortest(requires: str) -> str:
    """Return the alternative for any brand, which is the first."""
    return min(requires.split(), key=len)
