"""Names of runs, of the functions that conclude them and of secrets, and the ledger's index of runs."""

import re
from datetime import datetime

from trainyard.core.model.job_fields import RUN_ID
from trainyard.values.validation import Fault, InputFaults, show_value

CONCLUDES = {
    "train": "train-conclude",
    "study": "study-conclude",
    "bake": "bake-conclude",
    "snapshot": "snapshot-conclude",
    "dev-host": "dev-host-conclude",
}
"""The function `<yard>-...` that concludes a run, by the kind of the run."""
SERVICE_LINKED_ROLES = {
    "spot.amazonaws.com": "AWSServiceRoleForEC2Spot",
    "ec2fleet.amazonaws.com": "AWSServiceRoleForEC2Fleet",
}
"""The roles of an account that EC2 assumes, by the service that assumes them."""
BY_MONTH = "month"
"""The name of the ledger's index of runs, which is also its key attribute. The index is sorted by `created`."""
LISTED = (
    "kind", "state", "attempt", "execution_arn", "name", "submitter", "labels", "args", "outcome", "error", "reason",
    "ended", "progress", "scalars", "waiting", "search", "last_launch", "dollars", "saved_dollars", "image",
)  # fmt: skip
"""The attributes of a run's row in the index, in addition to all keys. An index has at most 20."""
ARCHIVE = re.compile(r"archive-(i-[^-]+)-\d{10}")


def archive_execution(instance: str, now: datetime) -> str:
    """Return the name of the snapshot execution that archives a host, at most one per hour."""
    return f"archive-{instance}-{now:%Y%m%d%H}"


def archived_host(execution: str) -> str | None:
    """Return the host that an execution of this name archives, or None for another execution."""
    found = ARCHIVE.fullmatch(execution)
    return found.group(1) if found else None


def secret_parameter(yard: str, secret: str) -> str:
    """Return the parameter of Parameter Store with this secret of `program.secrets`."""
    return f"/{yard}/secrets/{secret}"


def name_fault(run: str) -> InputFaults | None:
    """Return the fault of an execution's name that cannot be a run's id in tags, keys, paths and commands."""
    if re.fullmatch(RUN_ID, run):
        return None
    problem = (
        f"{show_value(run)} cannot be a run's id; start it again (start-execution --name) with a name of 1 to 80 "
        "letters, digits, hyphens and underscores that begins with a letter or digit, or without a name"
    )
    return InputFaults("The execution's name", (Fault("", problem),))


def describe_used_name(run: str, owner: str) -> str:
    """Return why an execution of this name cannot run: the run belongs to an earlier execution or another workflow."""
    return (
        f"The run {run} belongs to another execution ({owner}), because all workflows of a yard share the names of "
        "runs and the ledger keeps each name. Nothing was done. Start it again (start-execution --name) with "
        "another name, or without one."
    )


def store_secret(parameter: str) -> str:
    """Return the shell line that stores a secret.

    The value is typed without being shown and is not part of the command line, which other accounts of the computer can
    read and which the shell keeps in its history.
    """
    put = f"aws ssm put-parameter --type SecureString --name {parameter} --value file:///dev/stdin"
    return f'read -rs VALUE; printf %s "$VALUE" | {put}'
