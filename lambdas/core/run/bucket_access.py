"""What the hosts of a run may reach in the bucket, and which secrets, as the session policy of their credentials. Pure.

The role behind it says what any run may do at all; the policy names the run, its source, its data and its secrets.
docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html
"""

import json
from collections.abc import Sequence

from trainyard.core.model.job import Job
from trainyard.core.model.names import secret_parameter
from trainyard.protocol import keys

RESUMED = ("checkpoints", "outputs", "outputs-of")
"""What hosts may read of the run that theirs resumes."""
LONGEST = 2048
"""Characters that STS takes."""
NOT_LITERAL = "*?$"
"""What a policy reads as something else."""


def session_policy(
    bucket: str, run: str, job: Job, *, yard: str, partition: str = "aws", longest: int = LONGEST
) -> str:
    """No longer than `longest` characters, or as short as it can be: names too long for it give way, the longest first,
    to the folder that they are in."""
    uris = (job.program.source, *(each.source for each in job.data.values()))
    places = {_literal(uri) for uri in uris if uri}
    names = sorted(secret_parameter(yard, secret) for secret in set(job.program.secrets.values()))
    secrets = [f"arn:{partition}:ssm:*:*:parameter{name}" for name in names]
    resumed = job.checkpoints.resume
    earlier = [f"{bucket}/{keys.run(resumed)}{each}/" for each in RESUMED] if resumed else []
    while True:
        policy = _policy(
            f"arn:{partition}:s3:::", bucket, keys.run(run), [*earlier, *sorted(places)], secrets
        )
        long = max(places, key=lambda place: (len(place), place), default="")
        folder = _folder_of(long)
        if len(policy) <= longest or not folder:
            return policy
        places = {place for place in places if not place.startswith(folder)} | {folder}


def _policy(arn: str, ours: str, own: str, places: Sequence[str], secrets: list[str]) -> str:
    """`places`: objects, and folders with all below them, each behind its bucket's name, of which the role behind it
    may read; `arn`: what ARNs of buckets begin with. `secrets`: ARNs.

    Every list names a prefix: a list without one would return the keys of all runs. S3 therefore answers "denied" for a
    missing object, too, and a host lists the key to tell the two apart (training/host/bucket.py)."""
    read = [f"{place}*" if place.endswith("/") else place for place in places]
    listed = {ours: [f"{own}*"]}
    for bucket, _, prefix in (each.partition("/") for each in read):
        listed.setdefault(bucket, []).append(prefix)
    statements = [_allow("s3:*", [f"{arn}{ours}/{own}*"])]
    for bucket, prefixes in listed.items():
        only = {"StringLike": {"s3:prefix": prefixes}}
        statements.append(_allow("s3:ListBucket", [f"{arn}{bucket}"], only))
    statements.append(_allow("kms:*", ["*"]))
    if read:
        statements.append(_allow("s3:GetObject*", [f"{arn}{each}" for each in read]))
    if secrets:
        statements.append(_allow("ssm:GetParameters", secrets))
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))


def _allow(action: str, on: list[str], when: object = None) -> dict[str, object]:
    return {"Effect": "Allow", "Action": action, "Resource": on} | ({"Condition": when} if when else {})


def _literal(uri: str) -> str:
    """Bucket and key, or the folder in it before anything that a policy would not take as it stands."""
    place = uri.partition("://")[2]
    while any(character in place for character in NOT_LITERAL):
        place = _folder_of(place) or f"{place.partition('/')[0]}/"
    return place


def _folder_of(place: str) -> str:
    """The one that it is in; "" for what is at the top of its bucket."""
    bucket, _, key = place.partition("/")
    folder = key.rstrip("/").rpartition("/")[0]
    return f"{bucket}/{folder}/" if folder else ""
