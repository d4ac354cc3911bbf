"""Credentials for hosts: of a run, to read and write its own part of the bucket (contracts/bucket.md), and of the owner
of a dev host, to submit jobs.

A host requests them by a signal, so that IAM authenticates the host, and reads them from a key that only it can read.
Only this function may assume their role, narrowed to the run or owner, and they expire after an hour."""

from collections.abc import Mapping

from lambdas.aws import s3, sts
from lambdas.aws.ec2 import instances
from lambdas.core.images.dev import policy_of_owner
from lambdas.core.run.bucket_access import LONGEST, session_policy
from lambdas.steps.signals.context import SignalContext, SignalSettings
from trainyard.core.model import dev
from trainyard.core.model.errors import Misconfigured
from trainyard.core.model.job import Job
from trainyard.protocol import keys
from trainyard.protocol.signals import Sent
from trainyard.protocol.tags import Tag

SECONDS = 3600
"""The longest lifetime that STS allows a role that assumes another role."""
SHORTEST = LONGEST // 16


def give(context: SignalContext, sent: Sent) -> str:
    """Give credentials to a host of an open run. Raises Misconfigured if STS accepts no policy for the run."""
    records, yard = context.open_run(), context.yard
    if records is None or records.job is None or sent.instance not in records.hosts:
        return "not a host of a live run"
    return _leave(yard, sent, _credentials(yard, context.run, records.job, sent.instance))


def give_to_dev_host(yard: SignalSettings, sent: Sent) -> str:
    """Give a dev host the credentials of its owner. The owner is in a tag that only functions write, even weeks after
    the launch. Raises Misconfigured if STS accepts no policy for the owner."""
    found = [host for host in instances.find_by_id([sent.instance]) if host.state in instances.LIVE]
    owner = dev.owner(found[0].tags) if found else None
    if owner is None or not dev.can_own(owner) or found[0].tags.get(Tag.YARD) != yard.yard:
        return f"{sent.instance} is not a dev host of this yard"
    policy = policy_of_owner(yard.bucket_name, owner, yard.dev_role.split(":")[1])
    given = sts.assume(yard.dev_role, sent.instance, policy, seconds=SECONDS)
    if given is None:
        raise Misconfigured(
            f"STS accepts no policy for {owner}, because the names of the user and the bucket are too long. The dev "
            "host stays without credentials. Use a shorter user name, or deploy with a bucket of a shorter name"
        )
    return _leave(yard, sent, given)


def _leave(yard: SignalSettings, sent: Sent, given: Mapping[str, object]) -> str:
    """Write the credentials to the key that only this host can read."""
    key = keys.credentials(f"{yard.host_role_id}:{sent.instance}")
    s3.put_json(yard.bucket_name, key, {**given, "Run": sent.run})
    return f"{sent.instance} has credentials until {given['Expiration']}"


def _credentials(yard: SignalSettings, run: str, job: Job, instance: str) -> dict[str, object]:
    partition, longest = yard.run_role.split(":")[1], LONGEST
    while longest >= SHORTEST:
        policy = session_policy(
            yard.bucket_name, run, job, yard=yard.yard, partition=partition, longest=longest
        )
        given = sts.assume(yard.run_role, instance, policy, seconds=SECONDS)
        if given:
            return given
        longest //= 2
    raise Misconfigured(
        f"STS accepts not even the shortest policy for {run}, because the names of the run and the bucket are too "
        "long. Its hosts cannot read or write the bucket. Start the run again with a shorter name"
    )
