"""The user who submitted a run, as verified by IAM: the user who may write the job file's key, if the upload of the
file started the run.

The policy for users lets each user write job files only below `jobs/by/<who>/`. `<who>` is the name of an IAM user, or
the id of the role and the name of a session (`AROA...:alice@example.com`). docs/decisions/0035-who-asked-by-the-key.md
"""

import re

from trainyard.protocol import keys

UNKNOWN = "unknown"
"""The submitter of a job file in another folder, or of a job in an execution's input, which IAM does not verify."""
VOUCHED = re.compile(keys.owned(keys.JOBS, r"([A-Za-z0-9_+=,.@:-]{1,128})") + ".+")
"""The key of a job file in a user's folder. IAM's names of users and sessions have only these characters."""
NO_TAG = re.compile(r"[^A-Za-z0-9 +=._:/@-]")
"""Characters that tags of EC2 allow and tags of other services do not."""


def submitter_of(key: str | None) -> str:
    """Return the submitter by the key of the job file. The key is None for a job without a file."""
    found = VOUCHED.fullmatch(key or "")
    return found.group(1) if found else UNKNOWN


def tag(submitter: str) -> str:
    """Return the submitter as the value of a tag."""
    return NO_TAG.sub("_", submitter)
