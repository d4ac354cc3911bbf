"""Published scripts as jobs."""

from pathlib import Path
from typing import Any

from tests.e2e.runs import Runs
from trainyard.client.jobs.source import pack_folder

SCRIPTS = Path(__file__).parent / "scripts"
KEY = "programs/scripts.tar.gz"


def script(runs: Runs, module: str, *, args: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """Return a job that runs a script, by default on one host."""
    runs.yard.bucket.put(KEY, pack_folder(SCRIPTS))
    one_host = {"data": None, "cluster": {"strategy": "single", "workers": 1}}
    job = runs.job(module.replace("_", "-"), **one_host | changes)
    job["program"] |= {"source": f"s3://BUCKET/{KEY}", "module": module, "args": args}
    return job
