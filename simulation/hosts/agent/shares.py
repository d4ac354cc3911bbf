"""Data that are shared out among the hosts of a gang."""

from __future__ import annotations

from training.host.bucket import Bucket
from training.host.cluster import Cluster


def look_at_shares(bucket: Bucket, cluster: Cluster) -> None:
    """List each source that is shared out by file, as the fetch of a host's share does."""
    for entry in (cluster.job.get("data") or {}).values():
        if isinstance(entry, dict) and entry.get("sharding") == "file":
            name, key = bucket.of(entry["source"])
            next(name.list(key), None)
