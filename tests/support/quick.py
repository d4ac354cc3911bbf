"""Jobs of the quick program (tests/support/programs/steps.py)."""

from pathlib import Path
from typing import Any

from trainyard.client import Yard
from trainyard.client.jobs.source import pack_folder

PROGRAMS = Path(__file__).resolve().parent / "programs"
PROGRAM_KEY = "programs/steps.tar.gz"
LONG_AT_FIRST: dict[str, Any] = {"steps": 400, "first-delay": 0.2, "step-delay": None, "checkpoint-every": 10}
"""Arguments of a program whose first attempt takes 80 s and whose later attempts end at once."""

RELEASE_FILE = "/run/go-on"
UNTIL_RELEASED: dict[str, Any] = {"steps": 200, "waits-for": RELEASE_FILE}
"""Arguments of a program that ends when this file appears on the chief's host."""


def prepare(yard: Yard) -> None:
    """Put the program and a little data into the yard's bucket."""
    yard.bucket.put(PROGRAM_KEY, pack_folder(PROGRAMS))
    yard.bucket.put("data/few/numbers.txt", b"1\n2\n3\n")


def job(name: str, **changes: Any) -> dict[str, Any]:
    """Return a small job of the quick program on two hosts, with `changes` merged in. Admission fills in BUCKET."""
    base = {
        "name": name,
        "program": {
            "source": f"s3://BUCKET/{PROGRAM_KEY}",
            "module": "steps",
            "args": {"steps": 60, "step-delay": 0.02},
        },
        "data": {"few": "s3://BUCKET/data/few/"},
        "cluster": {"strategy": "multi_worker", "workers": 2},
        "hardware": {"instance_types": ["g6.xlarge"], "market": "spot"},
        "limits": {"hours": 1, "dollars": 5, "restarts": 2, "wait_minutes": 5},
    }
    return merge(base, changes)


def merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Return `below` with the values of `above`; None removes a key."""
    result = dict(below)
    for key, value in above.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merge(result[key], value)
        else:
            result[key] = value
    return result
