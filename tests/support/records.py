"""Rows of a run for tests: a job, a host and the ledger at one time."""

from typing import Any

from lambdas.core.run import records
from lambdas.core.run.records import Records

AT = "2026-11-20T12:00:00.000Z"
JOB = {
    "name": "digits",
    "program": {"module": "m"},
    "cluster": {"strategy": "multi_worker", "workers": 3},
    "limits": {"hours": 2, "dollars": 3},
}


def host(attempt: int = 1, **more: Any) -> dict[str, Any]:
    known = {
        "attempt": attempt,
        "type": "g6.xlarge",
        "zone": "a",
        "market": "spot",
        "price": 1.0,
        "launched": AT,
    }
    return known | more


def ledger(
    *rows: dict[str, Any],
    hosts: dict[str, dict[str, Any]] | None = None,
    attempt: int = 1,
    job: dict[str, Any] = JOB,
) -> Records:
    """Return a run whose attempt has these hosts."""
    hosts = hosts or {}
    run = {
        "sk": "run",
        "kind": "train",
        "state": "Train",
        "attempt": attempt,
        "created": AT,
        "execution_arn": "arn",
        "job": job,
    }
    gang = {
        "sk": f"attempt#{attempt:04d}",
        "candidate": {"pool": "p"},
        "hosts": sorted(hosts),
        "launched": AT,
    }
    found = records.from_rows(
        "digits-1", [run, gang, *({"sk": f"host#{name}"} | row for name, row in hosts.items()), *rows]
    )
    assert found is not None
    return found
