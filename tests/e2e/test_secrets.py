"""A program uses a secret of Parameter Store, whose value appears nowhere else."""

import hashlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.published import script
from tests.e2e.runs import Runs

VALUE = "correct-horse-battery-staple"
NAMED = {"WANDB_API_KEY": "wandb"}


@pytest.fixture
def parameter(runs: Runs) -> Iterator[str]:
    ssm, name = runs.yard.session.client("ssm"), "/trainyard/secrets/wandb"
    ssm.put_parameter(Name=name, Type="SecureString", Value=VALUE)
    yield name
    ssm.delete_parameter(Name=name)


def test_a_program_uses_a_secret_that_is_found_nowhere_else(runs: Runs, parameter: str) -> None:
    job = script(runs, "with_secret", program={"secrets": NAMED}, after={"image": "on_success"})
    run = runs.start(job)
    used = f"sum {hashlib.sha256(VALUE.encode()).hexdigest()}"
    runs.until("the secret in use", lambda: used in run.log())
    (host,) = [one["InstanceId"] for one in runs.yard.instances(run.id)]
    assert files_with_it(runs.cloud.state / "instances" / host / "upper") == []
    runs.finish(run)
    assert run.succeeded, run.why()
    image = run.summary["image"]
    assert files_with_it(runs.cloud.state / "images" / image / "layer") == []
    assert [key for key in run.keys if VALUE in run.text(key)] == []
    rows = [runs.yard.partition(f"{what}#{run.id}") for what in ("run", "timeline")]
    assert VALUE not in json.dumps([rows, run.summary], default=str)
    assert VALUE not in json.dumps([vars(run.execution), run.history], default=str)
    assert [group for group, text in logs(runs) if VALUE in text] == []
    pages = runs.yard.session.client("ssm").get_paginator("describe_parameters").paginate()
    assert parameter in [each["Name"] for page in pages for each in page["Parameters"]]


def test_a_job_whose_secret_is_not_there_is_refused_with_the_command(runs: Runs) -> None:
    run = runs.run(script(runs, "with_secret", program={"secrets": {"HF_TOKEN": "missing"}}))
    assert run.execution.error == "JobRefused"
    assert (
        "program.secrets.HF_TOKEN: the parameter /trainyard/secrets/missing does not exist; store the secret first: "
        'read -rs VALUE; printf %s "$VALUE" | aws ssm put-parameter --type SecureString '
        "--name /trainyard/secrets/missing --value file:///dev/stdin"
    ) in run.execution.cause
    assert runs.yard.instances(run.id) == []


def files_with_it(folder: Path) -> list[str]:
    """Return the files with the value in the disk layer of a host or an image."""
    assert folder.is_dir()
    found = subprocess.run(
        ["grep", "-rlF", "--devices=skip", VALUE, str(folder)], capture_output=True, text=True, check=False
    )
    return found.stdout.splitlines()


def logs(runs: Runs) -> Iterator[tuple[str, str]]:
    client = runs.yard.session.client("logs")
    for page in client.get_paginator("describe_log_groups").paginate():
        for group in page["logGroups"]:
            name = group["logGroupName"]
            for found in client.get_paginator("filter_log_events").paginate(logGroupName=name):
                yield name, "\n".join(event["message"] for event in found["events"])
