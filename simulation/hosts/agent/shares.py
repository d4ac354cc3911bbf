"""Data that is divided among the hosts of a gang."""

from __future__ import annotations

from training.host.bucket import Bucket
from trainyard.core.model.job import Job
from trainyard.core.model.program import Sharding


def look_at_shares(bucket: Bucket, job: Job) -> None:
    """List each source that is divided by file, as a host does when it fetches its share."""
    for data in job.data.values():
        if data.sharding is Sharding.FILE:
            name, key = bucket.of(data.source)
            next(name.list(key), None)
