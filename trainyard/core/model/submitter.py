"""Who asked for a run, as far as IAM vouches for it: the user who may put the job file where it lies, if the upload of
the file has started the run.

The policy for users lets each put job files below `jobs/by/<who>/` alone, where `<who>` is what IAM knows them by: the
name of an IAM user, or of a session the id of its role and its own name (`AROA...:alice@example.com`).
docs/decisions/0035-who-asked-by-the-key.md"""

import re

from trainyard.protocol import keys

FOLDER = f"{keys.JOBS}by/"
UNKNOWN = "unknown"
"""Of a job file elsewhere, or of a job that somebody gave to an execution: nobody vouches for who did."""
VOUCHED = re.compile(FOLDER + r"([A-Za-z0-9_+=,.@:-]{1,128})/.+")
"""What IAM calls users and sessions has no other characters."""
NO_TAG = re.compile(r"[^A-Za-z0-9 +=._:/@-]")
"""What EC2's tags may have and other services' may not."""


def of_key(key: str | None) -> str:
    """By the key of the job file, None for a job that lies nowhere."""
    found = VOUCHED.fullmatch(key or "")
    return found.group(1) if found else UNKNOWN


def tag(submitter: str) -> str:
    """The same as the value of a tag."""
    return NO_TAG.sub("_", submitter)
