"""Commands that the host runs in a container before the program: its packages, and the tests of a bake."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace

from training.host.account import Account
from training.host.container.enter import Mount
from training.host.container.inside import Inside
from training.host.paths import Paths
from training.host.program.process import enter_command, handed_over
from training.host.program.tasks import most_tasks


def run(
    inside: Inside,
    paths: Paths,
    account: Account,
    words: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    mounts: Sequence[Mount] = (),
    has_source: bool = False,
    seconds: float,
) -> "subprocess.CompletedProcess[str]":
    """Run a command in the container and return its result. Raises subprocess.TimeoutExpired."""
    entrance = inside.entrance(paths, account, has_source=has_source, most_tasks=most_tasks())
    entrance = replace(entrance, mounts=(*entrance.mounts, *mounts))
    variables = inside.variables(os.environ) | {"PATH": inside.path, "HOME": str(paths.home)}
    with handed_over(variables | dict(environment or {})) as given:
        return subprocess.run(
            enter_command(entrance, words),
            check=False,
            stdin=given,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            env={"PATH": os.defpath},
        )
