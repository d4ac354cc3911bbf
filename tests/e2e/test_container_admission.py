"""A container image is checked by the deployed functions before a launch, and the plan shows what hosts pull."""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from localcloud.base import root_key
from localcloud.cli.image_build import Settings, build
from localcloud.cli.images import Pusher
from tests.e2e.runs import Runs

OWN = "123456789012.dkr.ecr.us-east-1.amazonaws.com"
REFUSED = {
    f"{OWN}/team/none-NAME:v1": f"{OWN} has no repository team/none-NAME",
    f"{OWN}/team/NAME:v9": f"{OWN}/team/NAME has no tag v9; the nearest of its tags are v1",
    "ghcr.io/team/NAME:v1": "registries=arn:aws:ecr:us-east-1:123456789012:repository/*,docker.io,nvcr.io,ghcr.io",
    "docker.io/team/NAME:v1": "shows team/NAME to no caller without a login",
    f"{OWN}/arm/NAME:v1": "is for linux/arm64, and",
}


@pytest.fixture(scope="module")
def name(runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Push an image for each architecture to repositories of this name."""
    found, folder = uuid.uuid4().hex[:12], tmp_path_factory.mktemp("files")
    (folder / "file").write_bytes(b"content")
    for repository, architecture in (("team", "amd64"), ("arm", "arm64")):
        push(runs, f"{OWN}/{repository}/{found}:v1", folder, architecture)
    return found


def push(runs: Runs, image: str, folder: Path, architecture: str = "amd64") -> str:
    built = build([folder], Settings(architecture=architecture, command=["true"]))
    return Pusher(runs.cloud.port, root_key.load_key(runs.cloud.state), image).push([built])


def job(runs: Runs, name: str, container: Any) -> dict[str, Any]:
    return runs.job(name) | {"name": name, "program": {"container": container}, "data": {}}


@pytest.mark.parametrize("image", REFUSED)
def test_an_image_that_hosts_could_not_run_is_refused_with_its_own_sentence(
    runs: Runs, name: str, image: str
) -> None:
    run = runs.run(job(runs, f"bad-{uuid.uuid4().hex[:8]}", image.replace("NAME", name)))
    assert run.execution.error == "JobRefused"
    assert REFUSED[image].replace("NAME", name) in run.why()


def test_a_login_that_no_secret_has_is_refused(runs: Runs, name: str) -> None:
    container = {"image": f"nvcr.io/team/{name}:v1", "login": f"absent-{name}"}
    run = runs.run(job(runs, f"login-{uuid.uuid4().hex[:8]}", container))
    assert run.execution.error == "JobRefused"
    assert f'the secret "absent-{name}" does not exist; store the text user:password first' in run.why()


def test_the_plan_shows_what_each_host_pulls(runs: Runs, name: str, tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    file.write_text(json.dumps(job(runs, "pulls", f"{OWN}/team/{name}:v1")))
    found = runs.yard.plan(file)
    assert f"{OWN}/team/{name}:v1: each of 2 hosts pulls " in found.reason
