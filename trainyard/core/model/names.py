"""What runs may be called, how the functions that conclude them are, where secrets lie, and how runs are listed."""

import re
from datetime import datetime

from trainyard.core.model.job_fields import RUN_ID
from trainyard.values.validation import Fault, InputFaults, shown

CONCLUDES = {
    "train": "train-conclude",
    "bake": "bake-conclude",
    "snapshot": "snapshot-conclude",
    "dev-host": "dev-host-conclude",
}
"""By the kind of run: the function `<yard>-...` that concludes it."""
SERVICE_LINKED_ROLES = {
    "spot.amazonaws.com": "AWSServiceRoleForEC2Spot",
    "ec2fleet.amazonaws.com": "AWSServiceRoleForEC2Fleet",
}
"""The roles that EC2 acts through, which an account has once, by the service that takes them."""
BY_MONTH = "month"
"""The ledger's index of runs: by the attribute of that name, in the order of `created`."""
LISTED = (
    "kind", "state", "attempt", "execution_arn", "name", "submitter", "labels", "outcome", "error", "reason",
    "ended", "progress", "waiting", "pool", "market", "gang", "price", "dollars", "saved_dollars", "image",
)  # fmt: skip
"""What of a run's row the index has, beside all keys."""
ARCHIVE = re.compile(r"archive-(i-[^-]+)-\d{10}")


def archive(instance: str, now: datetime) -> str:
    """The execution of the snapshot workflow by which patrol archives a host: one an hour."""
    return f"archive-{instance}-{now:%Y%m%d%H}"


def archived(execution: str) -> str | None:
    """The host that an execution of this name archives; None for any other execution."""
    found = ARCHIVE.fullmatch(execution)
    return found.group(1) if found else None


def secret_parameter(yard: str, secret: str) -> str:
    """The parameter of Parameter Store that holds this secret of `program.secrets`."""
    return f"/{yard}/secrets/{secret}"


def misnamed(run: str) -> InputFaults | None:
    """The execution's name is the run's id: in tags, keys, paths and commands. None when it fits them all."""
    if re.fullmatch(RUN_ID, run):
        return None
    problem = (
        f"{shown(run)} cannot be a run's id; start it again (start-execution --name) with a name of 1 to 80 "
        "letters, digits, hyphens and underscores that begins with a letter or digit, or without a name"
    )
    return InputFaults("The execution's name", (Fault("", problem),))


def taken(run: str, owner: str) -> str:
    """Why an execution of this name cannot run: another one, of this workflow long ago or of another, has the run."""
    return (
        f"The run {run} belongs to another execution ({owner}), since the workflows of a yard share the names of "
        "their runs, and the ledger keeps each; nothing was done. Start it again (start-execution --name) with "
        "another name, or without one."
    )
