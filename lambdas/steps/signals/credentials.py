"""Credentials of a run: what lets its hosts read and write their own part of the bucket (contracts/bucket.md). And of a
dev host's owner: what lets people submit from where they sit.

A host asks for them by a signal, so that IAM vouches for who asks, and finds them where only it can read. They are of
a role that this function alone may take, narrowed to the run or the owner, and end after an hour.
"""

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
"""The most that STS gives to who has credentials of a role itself."""
SHORTEST = LONGEST // 16


def give(context: SignalContext, sent: Sent) -> str:
    """To a host of a run that goes on. Raises Misconfigured where STS takes no policy for it."""
    records, yard = context.open_run(), context.yard
    if records is None or records.job is None or sent.instance not in records.hosts:
        return "not a host of a live run"
    return _leave(yard, sent, _credentials(yard, context.run, records.job, sent.instance))


def give_to_dev_host(yard: SignalSettings, sent: Sent) -> str:
    """Those of its owner, who stands in a tag that functions alone write: its launch may be over for weeks. Raises
    Misconfigured where STS takes no policy for them."""
    found = [host for host in instances.of_ids([sent.instance]) if host.state in instances.LIVE]
    owner = dev.owner(found[0].tags) if found else None
    if owner is None or not dev.can_own(owner) or found[0].tags.get(Tag.YARD) != yard.yard:
        return f"{sent.instance} is no dev host of this yard"
    policy = policy_of_owner(yard.bucket_name, owner, yard.dev_role.split(":")[1])
    given = sts.assume(yard.dev_role, sent.instance, policy, seconds=SECONDS)
    if given is None:
        raise Misconfigured(
            f"STS takes no policy for {owner}: that name and the bucket's are too long for it"
        )
    return _leave(yard, sent, given)


def _leave(yard: SignalSettings, sent: Sent, given: Mapping[str, object]) -> str:
    """Where that host alone can read."""
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
        f"STS takes no policy for {run}, not even the shortest: its name and the bucket's are too long for it"
    )
