"""The plan's sentences about streamed data."""

from dataclasses import replace
from typing import Any

import pytest

from lambdas.core.capacity import streams
from tests.unit.core.builders import job
from trainyard.core.model.job import Job
from trainyard.core.model.program import Listed

MIB = 1024**2
TWENTY = "20 objects (2.0 GiB, 100.0 MiB on average): 260 GET requests ($0.0001)"


def streaming(listed: Listed | None, **entry: Any) -> Job:
    """Return a job with one streamed entry, as Admit has listed it."""
    made = job(
        cluster={"strategy": "multi_worker", "workers": 4},
        data={"train": {"source": "s3://BUCKET/data/t/", "mode": "stream", **entry}},
    )
    return replace(made, data={"train": replace(made.data["train"], listed=listed)})


@pytest.mark.parametrize(
    ("listed", "entry", "said"),
    [
        (
            Listed(objects=20, bytes=2000 * MIB, gets=260),
            {},
            f"{TWENTY} a pass and host.",
        ),
        (
            Listed(objects=10_000, bytes=1000 * MIB, gets=10_000, is_cut=True),
            {},
            "10,000 objects or more (1000.0 MiB, 102.4 KiB on average): 10,000 GET requests ($0.0040) a pass and host.",
        ),
        (
            Listed(objects=20, bytes=2000 * MIB, gets=260),
            {"sharding": "file"},
            f"{TWENTY} a pass, shared out among 4 workers.",
        ),
        (None, {}, ""),
    ],
)
def test_a_pass_has_requests_and_dollars(listed: Listed | None, entry: dict[str, Any], said: str) -> None:
    found = streams.describe(streaming(listed, **entry))
    assert found == (f"data.train streams {said}" if said else "")


@pytest.mark.parametrize(("disk", "fault"), [(0, False), (100, True), (150, False), (200, False)])
def test_caches_must_fit_on_the_disk(disk: int, fault: bool) -> None:
    found = streams.find_fault(streaming(None, cache_gib=150).data, disk)
    assert bool(found) == fault
    if found:
        assert "data.train.cache_gib: 150" in found
        assert "hardware.disk_gib: 250" in found
