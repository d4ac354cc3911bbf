"""The session policy of a run's hosts: what they may reach in the bucket, and the secrets, the container image and the
file systems that they may read. Pure.

The role behind the policy contains what any run may do; the policy names the run, its source, its data, its secrets,
its image and its file systems.
docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html
"""

import json
from collections.abc import Mapping, Sequence

from trainyard.core.model.job import Job
from trainyard.core.model.names import secret_parameter
from trainyard.core.model.yard.registries import arn_of
from trainyard.protocol import keys
from trainyard.protocol.file_systems import Access, FileSystemKind

RESUMED = ("checkpoints", "outputs", "outputs-of")
"""The folders of a resumed run that hosts may read."""
LONGEST = 2048
"""Characters that STS allows."""
NOT_LITERAL = "*?$"
"""Characters with a special meaning in a policy."""


def session_policy(
    bucket: str, run: str, job: Job, *, yard: str, partition: str = "aws", longest: int = LONGEST
) -> str:
    """Return the session policy. Above `longest` characters, names give way to their folders, the longest name
    first."""
    uris = (job.program.source, *(each.source for each in job.data.values() if not each.folder))
    paths = {_literal(uri) for uri in uris if uri}
    container = job.program.container
    login = {container.login} if container and container.login else set()
    headers = {job.telemetry.headers} if job.telemetry and job.telemetry.headers else set()
    names = sorted(
        secret_parameter(yard, secret) for secret in {*job.program.secrets.values(), *login, *headers}
    )
    repository = arn_of(container.reference, partition) if container else ""
    secrets = [f"arn:{partition}:ssm:*:*:parameter{name}" for name in names]
    resumed = job.checkpoints.resume
    mounts = _mounts(job, partition)
    earlier = [f"{bucket}/{keys.run(resumed)}{each}/" for each in RESUMED] if resumed else []
    while True:
        policy = _policy(
            f"arn:{partition}:s3:::",
            bucket,
            keys.run(run),
            [*earlier, *sorted(paths)],
            secrets,
            repository,
            mounts,
        )
        long = max(paths, key=lambda path: (len(path), path), default="")
        folder = _folder_of(long)
        if len(policy) <= longest or not folder:
            return policy
        paths = {path for path in paths if not path.startswith(folder)} | {folder}


def _policy(
    arn: str,
    ours: str,
    own: str,
    paths: Sequence[str],
    secrets: list[str],
    repository: str,
    mounts: Mapping[str, list[str]],
) -> str:
    """Return the policy as JSON. `paths` are objects and folders behind the name of their bucket; `arn` is the
    beginning of a bucket's ARN; `secrets` and `repository` are ARNs, or empty; `mounts` has
    the ARNs of file systems by action.

    Every list names a prefix, because a list without one would return the keys of all runs. S3 therefore answers
    "denied" for a missing object, too, and a host lists the key to distinguish the two (training/host/bucket.py).
    """
    read = [f"{path}*" if path.endswith("/") else path for path in paths]
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
    if repository:
        statements.append(_allow("ecr:*", [repository]))
        statements.append(_allow("ecr:GetAuthorizationToken", ["*"]))
    statements += [_allow(action, arns) for action, arns in mounts.items()]
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))


def _mounts(job: Job, partition: str) -> dict[str, list[str]]:
    """Return the file systems of Amazon EFS that the job reads and writes, by action."""
    found: dict[str, set[str]] = {}
    for entry in job.data.values():
        if entry.folder and entry.folder.kind is FileSystemKind.EFS:
            arn = f"arn:{partition}:elasticfilesystem:*:*:file-system/{entry.folder.id}"
            found.setdefault("elasticfilesystem:ClientMount", set()).add(arn)
            if entry.access is Access.WRITE:
                found.setdefault("elasticfilesystem:ClientWrite", set()).add(arn)
    return {action: sorted(arns) for action, arns in found.items()}


def _allow(action: str, on: list[str], when: object = None) -> dict[str, object]:
    return {"Effect": "Allow", "Action": action, "Resource": on} | ({"Condition": when} if when else {})


def _literal(uri: str) -> str:
    """Return bucket and key, or the last folder before a special character."""
    path = uri.partition("://")[2]
    while any(character in path for character in NOT_LITERAL):
        path = _folder_of(path) or f"{path.partition('/')[0]}/"
    return path


def _folder_of(path: str) -> str:
    """Return the folder of a path; "" at the top of a bucket."""
    bucket, _, key = path.partition("/")
    folder = key.rstrip("/").rpartition("/")[0]
    return f"{bucket}/{folder}/" if folder else ""
