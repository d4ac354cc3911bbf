"""The tags of launched hosts."""

from datetime import datetime

from lambdas.core.capacity.plan import Part
from lambdas.core.run import deadlines, growth
from lambdas.workflows.train.launch.request import LaunchRequest
from trainyard.core.model import submitter
from trainyard.core.model.instance_types import instance_type
from trainyard.core.model.yard import policy
from trainyard.protocol.tags import Tag
from trainyard.protocol.times import LEASE_MARGIN
from trainyard.values import serialization


def tags_of(request: LaunchRequest, part: Part, now: datetime) -> dict[str, str]:
    """Return what the host reads of itself, what permissions are conditioned on, and what patrol judges by.

    The lease of a host that is to join a running attempt begins with the request, and ends soon unless it joins."""
    dearest = max(choice.price for choice in part.choices)
    if request.requested_at:
        lease = request.requested_at + growth.LEASE
    else:
        lease = deadlines.deadline(request.records, request.attempt, now) + LEASE_MARGIN
    row = request.records.run
    own = {} if row.kind == "train" else {Tag.KIND: row.kind}
    if row.submitter:
        own[Tag.SUBMITTER] = submitter.tag(row.submitter)
    if row.serves:
        own[Tag.SERVES] = row.serves.model
    if row.dev:
        own[Tag.DEV] = row.dev
    return own | {
        Tag.YARD: request.yard.yard,
        Tag.RUN: request.run,
        Tag.ATTEMPT: str(request.attempt),
        Tag.GANG: str(part.gang.value),
        Tag.GPUS: str(max(instance_type(choice.type).gpus for choice in part.choices)),
        Tag.LEASE: serialization.timestamp(lease),
        Tag.AFTER: request.job.after.hosts.value,
        Tag.PRICE: f"{dearest:.6f}",
        Tag.DISK: str(request.disk_gib),
        "Name": f"{request.run} attempt {request.attempt}",
        **policy.tags(request.job.policy),
    }
