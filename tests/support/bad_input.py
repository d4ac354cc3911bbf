"""Job files with faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.e2e.runs import Runs


@dataclass(frozen=True)
class Bad:
    """One bad input."""

    name: str
    says: tuple[str, ...]
    """Parts of the reason."""
    changes: dict[str, Any] | None = None
    files: dict[str, str] | None = None
    body: bytes | None = None
    given: Callable[[Runs], dict[str, Any]] | None = None


def change_job(name: str, *says: str, **changes: Any) -> Bad:
    """Return a valid job with faulty changes."""
    return Bad(name, says, changes=changes)


def file(name: str, body: bytes, *says: str) -> Bad:
    """Return an uploaded file that is not a job file."""
    return Bad(name, says, body=body)


def bad_execution(name: str, payload: Callable[[Runs], dict[str, Any]], *says: str) -> Bad:
    """Return an execution that is started by hand with a bad input."""
    return Bad(name, says, given=payload)


def program(name: str, *says: str, files: dict[str, str], **changes: Any) -> Bad:
    """Return a valid job whose program cannot run, or will probably fail."""
    return Bad(name, says, changes=changes, files=files)


SERVERS = {"strategy": "parameter_server", "workers": 2, "parameter_servers": 1}
BAD = [
    file("not-yaml", b"name: [unclosed\n", "YAML"),
    file("two-megabytes", b"# " + b"x" * 2_000_000, "bytes"),
    file("empty", b"", "empty"),
    file("a-list", b"[1, 2]", "mapping"),
    file("binary", bytes(range(256)), "text"),
    change_job("unknown-key", "colour", colour="red"),
    change_job("unknown-inner-key", "hardware.vcpus", hardware={"vcpus": 4}),
    change_job("wrong-type", "cluster.workers", cluster={"workers": "two"}),
    change_job("negative-workers", "cluster.workers", cluster={"workers": -1}),
    change_job("no-program", "program", program=None),
    change_job("impossible-type", "g5.xlarg", "did you mean", hardware={"instance_types": ["g5.xlarg"]}),
    change_job("no-gpu-type", "t3.micro", hardware={"instance_types": ["t3.micro"]}),
    change_job("no-types", "hardware.instance_types", hardware={"instance_types": []}),
    change_job("unknown-market", "hardware.market", hardware={"market": "cheap"}),
    change_job("zero-hours", "limits.hours", limits={"hours": 0}),
    change_job("zero-dollars", "limits.dollars", limits={"dollars": 0}),
    change_job("negative-restarts", "limits.restarts", limits={"restarts": -1}),
    change_job("endless-hours", "limits.hours", limits={"hours": float("inf")}),
    change_job("shell-in-module", "program.module", program={"module": "steps; rm -rf /"}),
    change_job(
        "source-elsewhere", "program.source", program={"source": "s3://somebody-else/programs/x.tar.gz"}
    ),
    change_job("source-outside", "program.source", program={"source": "s3://BUCKET/runs/x.tar.gz"}),
    change_job("source-upwards", "program.source", program={"source": "s3://BUCKET/programs/../jobs/x.json"}),
    change_job(
        "source-missing", "programs/nowhere.tar.gz", program={"source": "s3://BUCKET/programs/nowhere.tar.gz"}
    ),
    change_job(
        "source-no-tar", "programs/not-a.tar.gz", program={"source": "s3://BUCKET/programs/not-a.tar.gz"}
    ),
    change_job("data-empty", "data/nothing/", data={"few": "s3://BUCKET/data/nothing/"}),
    change_job("data-outside", "data.few", data={"few": "s3://BUCKET/jobs/"}),
    change_job("unaffordable", "max_dollars_per_hour", hardware={"max_dollars_per_hour": 0.01}),
    change_job("unknown-strategy", "cluster.strategy", cluster={"strategy": "horovod"}),
    change_job("stop-spot", "after.hosts", after={"hosts": "stop"}),
    change_job("no-workers", "cluster.workers", "only workers train", cluster=SERVERS | {"workers": 0}),
    change_job(
        "no-servers", "cluster.parameter_servers", "1 or more", cluster=SERVERS | {"parameter_servers": 0}
    ),
    change_job(
        "more-servers", "more parameter servers than workers", cluster=SERVERS | {"parameter_servers": 3}
    ),
    change_job("servers-alone", "cluster.parameter_servers", cluster={"parameter_servers": 1}),
    change_job("too-many", "51 hosts", cluster=SERVERS | {"workers": 48, "parameter_servers": 2}),
    change_job(
        "gpu-for-servers",
        "cpu_instance_types[0]",
        "instance_types",
        cluster=SERVERS,
        hardware={"cpu_instance_types": ["g6.xlarge"]},
    ),
    change_job(
        "both-sorts-of-types",
        "hardware.instance_types",
        "m7i.xlarge has none",
        hardware={"instance_types": ["g6.xlarge", "m7i.xlarge"]},
    ),
    change_job("our-variable", "program.environment.TF_CONFIG", program={"environment": {"TF_CONFIG": "{}"}}),
    change_job("number-as-variable", "program.environment.N", "quotes", program={"environment": {"N": 1}}),
    change_job(
        "unknown-word",
        "${data.trian}",
        "did you mean",
        program={"args": {"in": "${data.trian}"}},
        data={"train": "s3://BUCKET/data/few/"},
    ),
    change_job("expect-much", "program.expect[0]", program={"expect": ["modle"]}),
    change_job("keep-none", "checkpoints.keep", checkpoints={"keep": 0}),
    change_job(
        "too-few-files",
        "data.few.sharding",
        "1 file",
        "2 workers",
        data={"few": {"source": "s3://BUCKET/data/few/", "sharding": "file"}},
    ),
    change_job(
        "unknown-program",
        "did you mean",
        program={"source": None, "module": "training.programs.mnits", "args": None},
    ),
    program(
        "no-module", "program.module: steps cannot be found in s3://", files={"other.py": "print('here')\n"}
    ),
    program("folder-packed-too", "-C mine", files={"mine/steps.py": ""}),
    program(
        "no-requirements",
        "program.requirements",
        "did you mean",
        files={"steps.py": "", "requirement.txt": ""},
        program={"requirements": "requirements.txt"},
    ),
    program(
        "python-2",
        "helper.py line 2",
        "Python 2",
        files={"steps.py": "import helper\n", "helper.py": "x = 1\nprint x\n"},
    ),
    bad_execution("neither-input", lambda runs: {}, "job_key", "job"),
    bad_execution("both-inputs", lambda runs: {"job_key": "jobs/x.json", "job": runs.job("both")}, "both"),
    bad_execution("job-is-a-text", lambda runs: {"job": "digits"}, "job"),
    bad_execution("key-elsewhere", lambda runs: {"job_key": "data/few/numbers.txt"}, "job_key"),
    bad_execution(
        "object-deleted", lambda runs: {"job_key": "jobs/never-there.json"}, "jobs/never-there.json"
    ),
]
