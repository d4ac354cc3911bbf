"""Scripts as people publish them, as jobs."""

from pathlib import Path
from typing import Any

from tests.e2e.runs import Runs
from trainyard.client.jobs.source import packed

SCRIPTS = Path(__file__).parent / "scripts"
KEY = "programs/scripts.tar.gz"


def script(runs: Runs, module: str, *, args: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A job that runs one of the scripts, on one host unless `changes` say otherwise."""
    runs.yard.bucket.put(KEY, packed(SCRIPTS))
    alone = {"data": None, "cluster": {"strategy": "single", "workers": 1}}
    job = runs.job(module.replace("_", "-"), **alone | changes)
    job["program"] |= {"source": f"s3://BUCKET/{KEY}", "module": module, "args": args}
    return job
