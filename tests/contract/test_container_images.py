"""The check of a container image before a launch, in a function that has only the permissions of Admit for it."""

from __future__ import annotations

import io
import json
import uuid
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from localcloud.base import root_key
from localcloud.cli import image_build
from localcloud.cli.images import Pusher
from tests.contract.conftest import ACCOUNT, REGION, Cloud, allow

ROOT = Path(__file__).parents[2]
OWN = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com"
ELSEWHERE = f"999999999999.dkr.ecr.{REGION}.amazonaws.com"
REPOSITORIES = f"arn:aws:ecr:{REGION}:{ACCOUNT}:repository/allowed/*"
LISTED = (REPOSITORIES, f"arn:aws:ecr:{REGION}:999999999999:repository/*", "docker.io", "nvcr.io")
CODE = """
from lambdas.steps import containers
from trainyard.core.jobfile import check
from trainyard.core.model.yard.registries import PullThrough, Registry
from trainyard.values import serialization

def handler(event, context):
    job = check.check(event["job"], source="job.yaml", bucket="b")
    cached = tuple(PullThrough.of(each) for each in event["pull_through"])
    registries = tuple(Registry.of(each) for each in event["registries"])
    found = containers.pin(job, containers.Sources("Yard", registries, cached))
    return {
        "faults": [str(fault) for fault in found.faults],
        "warnings": list(found.warnings),
        "container": serialization.to_json(found.job.program.container),
    }
"""
Check = Callable[..., Any]


@pytest.fixture(scope="module")
def function(cloud: Cloud) -> str:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("index.py", CODE)
        for package in ("lambdas", "trainyard"):
            for path in (ROOT / package).rglob("*"):
                if path.suffix in (".py", ".json") and "ui" not in path.parts:
                    archive.write(path, path.relative_to(ROOT))
    may = (
        allow(["ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer", "ecr:DescribeImages"], REPOSITORIES),
        allow("ssm:GetParameters", f"arn:aws:ssm:{REGION}:{ACCOUNT}:parameter/Yard/secrets/*"),
    )
    name = f"function-{uuid.uuid4().hex[:12]}"
    cloud.client("lambda").create_function(
        FunctionName=name,
        Runtime="python3.11",
        Handler="index.handler",
        Role=cloud.role("lambda.amazonaws.com", *may),
        Code={"ZipFile": content.getvalue()},
        Timeout=60,
        MemorySize=512,
    )
    return name


@pytest.fixture
def checked(cloud: Cloud, function: str) -> Check:
    """Return a function that checks the image of a job."""

    def check(
        container: Any,
        *types: str,
        registries: tuple[str, ...] = LISTED,
        pull_through: tuple[str, ...] = (),
        command: Sequence[str] = (),
    ) -> Any:
        hardware = {"instance_types": list(types or ["g6.xlarge"])}
        program = {"container": container} | ({"command": command} if command else {})
        job = {"name": "train", "program": program, "hardware": hardware}
        event = json.dumps({"job": job, "registries": registries, "pull_through": pull_through})
        answer = cloud.client("lambda").invoke(FunctionName=function, Payload=event)
        found = json.load(answer["Payload"])
        assert "faults" in found, found
        return found

    return check


@pytest.fixture
def push(cloud: Cloud, tmp_path: Path) -> Callable[..., image_build.Image]:
    def pushed(name: str, content: str = "content", login: str = "", *, archs: str = "amd64") -> Any:
        (tmp_path / "file").write_text(content)
        built = [
            image_build.build(
                [tmp_path], image_build.Settings(user="1000:100", architecture=each, command=["true"])
            )
            for each in archs.split()
        ]
        Pusher(cloud.port, root_key.load_key(cloud.state), name, login).push(built)
        return built[0] if len(built) == 1 else built

    return pushed


def repository(prefix: str = "allowed") -> str:
    return f"{prefix}/{uuid.uuid4().hex[:12]}"


def fault(found: Any) -> str:
    (only,) = found["faults"]
    return str(only)


def test_a_tag_of_ecr_becomes_a_digest_with_the_size_of_its_layers(checked: Check, push: Any) -> None:
    name = f"{OWN}/{repository()}"
    image = push(f"{name}:v1")
    found = checked(f"{name}:v1")
    assert (found["faults"], found["warnings"]) == ([], [])
    assert found["container"]["digest"] == image.manifest.digest
    (manifest,) = found["container"]["manifests"].items()
    size = len(image.layers[0].content)
    assert manifest == (
        "amd64",
        {
            "digest": image.manifest.digest,
            "layers": 1,
            "size": size,
            "user": "1000:100",
            "has_entrypoint": False,
            "has_cmd": True,
            "cuda": "",
            "requires": "",
        },
    )
    push(f"{name}:v1", "a newer one")
    assert checked(f"{name}@{image.manifest.digest}")["container"]["digest"] == image.manifest.digest
    assert checked(f"{name}:v1")["container"]["digest"] != image.manifest.digest


def test_an_image_of_two_architectures_has_a_manifest_for_each(checked: Check, push: Any) -> None:
    name = f"{OWN}/{repository()}"
    images = push(f"{name}:v1", archs="amd64 arm64")
    found = checked(f"{name}:v1", "g6.xlarge", "g5g.xlarge")
    digests = {name: each["digest"] for name, each in found["container"]["manifests"].items()}
    assert digests == {image.architecture: image.manifest.digest for image in images}


def test_an_image_without_the_architecture_of_the_hosts_is_refused(checked: Check, push: Any) -> None:
    name = f"{OWN}/{repository()}"
    push(f"{name}:v1", archs="arm64")
    says = fault(checked(f"{name}:v1"))
    assert "is for linux/arm64, and g6.xlarge has linux/amd64" in says
    assert f"docker buildx build --platform linux/amd64 -t {name}:v1 --push ." in says
    assert checked(f"{name}:v1", "g6.xlarge", "g5g.xlarge")["faults"] == []


def test_a_misspelled_repository_tag_and_digest_are_told_apart(checked: Check, push: Any) -> None:
    name = f"{OWN}/{repository()}"
    for tag in ("v6", "v7"):
        push(f"{name}:{tag}", tag)
    missing = f"{OWN}/{repository()}:v7"
    assert f"{OWN} has no repository" in fault(checked(missing))
    assert "aws ecr describe-repositories --region us-east-1" in fault(checked(missing))
    says = fault(checked(f"{name}:v77"))
    assert f"{name} has no tag v77; the nearest of its tags are v7, v6" in says
    assert says.endswith(f"container: {name}:v7")
    digest = "sha256:" + "0" * 64
    assert f"{name} has no image with the digest {digest}" in fault(checked(f"{name}@{digest}"))


def test_a_registry_that_is_not_listed_is_refused_with_the_setting(checked: Check) -> None:
    says = fault(checked("ghcr.io/team/train:v1", registries=("docker.io",)))
    assert "ghcr.io/team/train is in no registry of this yard's setting registries (docker.io)" in says
    assert says.endswith("trainyard --yard Yard yard deploy -c registries=docker.io,ghcr.io")
    other = f"{OWN}/other/train"
    arn = f"arn:aws:ecr:{REGION}:{ACCOUNT}:repository/other/train"
    assert fault(checked(f"{other}:v1")).endswith(f"registries={','.join(LISTED)},{arn}'")


def test_a_repository_of_another_account_names_what_it_must_allow(checked: Check) -> None:
    says = fault(checked(f"{ELSEWHERE}/team/train:v1"))
    assert f"AWS does not let the yard read {ELSEWHERE}/team/train" in says
    assert "ecr:BatchGetImage" in says


@pytest.mark.parametrize("registry", ["docker.io", "nvcr.io"])
def test_another_registry_gives_the_digest_of_a_public_image(
    checked: Check, push: Any, registry: str
) -> None:
    name = f"{registry}/{repository('team')}"
    image = push(f"{name}:v1")
    assert checked(f"{name}:v1")["container"]["digest"] == image.manifest.digest
    assert f"{name} has no tag v2" in fault(checked(f"{name}:v2"))
    says = fault(checked(f"{registry}/{repository('team')}:v1"))
    assert "the repository does not exist, or it is private" in says


def test_a_private_image_needs_a_secret_with_the_right_login(cloud: Cloud, checked: Check, push: Any) -> None:
    name, secret = f"nvcr.io/{repository('team')}", f"ngc-{uuid.uuid4().hex[:8]}"
    image = push(f"{name}:v1", login="$oauthtoken:right")
    container = {"image": f"{name}:v1", "login": secret}
    assert "write login: NAME" in fault(checked(f"{name}:v1"))
    says = fault(checked(container))
    assert says.startswith(f'program.container.login: the secret "{secret}" does not exist')
    put = {"Name": f"/Yard/secrets/{secret}", "Type": "SecureString", "Overwrite": True}
    for value, part in (("nothing", "is not user:password"), ("$oauthtoken:wrong", "the login is wrong")):
        cloud.client("ssm").put_parameter(**put, Value=value)
        assert part in fault(checked(container))
    cloud.client("ssm").put_parameter(**put, Value="$oauthtoken:right")
    assert checked(container)["container"]["digest"] == image.manifest.digest


def test_a_rate_limit_is_a_warning_and_the_hosts_decide(cloud: Cloud, checked: Check, push: Any) -> None:
    name = f"docker.io/{repository('team')}"
    push(f"{name}:v1")
    cloud.command("fault", "registry", "busy", name)
    found = checked(f"{name}:v1")
    assert found["faults"] == []
    assert "docker.io allows no further request now (429)" in found["warnings"][0]
    assert found["container"]["digest"] == ""


@pytest.mark.parametrize("kind", ["truncated", "corrupt"])
def test_a_registry_that_is_cut_off_in_the_middle_is_asked_again(
    cloud: Cloud, checked: Check, push: Any, kind: str
) -> None:
    name = f"{OWN}/{repository()}"
    image = push(f"{name}:v1")
    cloud.command("fault", "registry", kind, name, "--times", "2")
    assert checked(f"{name}:v1")["container"]["digest"] == image.manifest.digest
    other = f"nvcr.io/{repository('team')}"
    push(f"{other}:v1")
    cloud.command("fault", "registry", kind, other)
    found = checked(f"{other}:v1")
    assert found["faults"] == []
    assert "nvcr.io was not reached (it " in found["warnings"][0]


def test_a_registry_without_an_answer_is_a_warning(checked: Check) -> None:
    found = checked("registry.invalid/team/train:v1", registries=("registry.invalid",))
    assert found["faults"] == []
    assert "registry.invalid was not reached" in found["warnings"][0]


@pytest.mark.parametrize("entrypoint", [True, False])
def test_an_image_that_names_no_program_needs_one_of_the_job(
    cloud: Cloud, checked: Check, tmp_path: Path, entrypoint: bool
) -> None:
    name = f"{OWN}/{repository()}"
    words = [] if entrypoint else ["/opt/train"]
    built = image_build.build([tmp_path], image_build.Settings(entrypoint=words))
    Pusher(cloud.port, root_key.load_key(cloud.state), f"{name}:v1").push([built])
    container = {"image": f"{name}:v1", "entrypoint": entrypoint}
    assert "so there is nothing to run: write program.command" in fault(checked(container))
    assert checked(container, command=["true"])["faults"] == []


def test_an_image_with_a_layer_that_no_host_unpacks_is_refused(
    cloud: Cloud, checked: Check, tmp_path: Path
) -> None:
    name = f"{OWN}/{repository()}"
    built = image_build.build([tmp_path], image_build.Settings(command=["true"]))
    content = built.manifest.content.replace(b"layer.v1.tar+gzip", b"layer.v1.tar+gzip+encrypted")
    encrypted = replace(built, manifest=image_build.Blob(built.manifest.kind, content))
    Pusher(cloud.port, root_key.load_key(cloud.state), f"{name}:v1").push([encrypted])
    assert "it has a layer of the type application/vnd.oci.image.layer.v1.tar+gzip+encrypted" in fault(
        checked(f"{name}:v1")
    )


def test_the_tag_latest_is_taken_and_its_digest_named(checked: Check, push: Any) -> None:
    name = f"{OWN}/{repository()}"
    image = push(name)
    (warning,) = checked(name)["warnings"]
    assert f"{name}@{image.manifest.digest}" in warning


def test_another_document_than_a_manifest_is_refused(cloud: Cloud, checked: Check) -> None:
    name = repository()
    ecr = cloud.client("ecr")
    ecr.create_repository(repositoryName=name)
    ecr.put_image(repositoryName=name, imageManifest='{"schemaVersion": 1, "fsLayers": []}', imageTag="v1")
    assert "its manifest is in an old format" in fault(checked(f"{OWN}/{name}:v1"))


def test_an_image_of_a_cached_registry_is_read_and_pinned_in_ecr(checked: Check, push: Any) -> None:
    name = repository("allowed/docker-hub")
    image = push(f"{OWN}/{name}:v1")
    rule = f"docker.io={OWN}/allowed/docker-hub"
    wanted = name.removeprefix("allowed/docker-hub/")
    found = checked(f"library/{wanted}:v1", registries=(), pull_through=(rule,))
    assert f"Amazon ECR has no {OWN}/allowed/docker-hub/library/{wanted}:v1" in fault(found)
    push(f"{OWN}/allowed/docker-hub/library/{wanted}:v1")
    found = checked(f"{wanted}:v1", registries=(), pull_through=(rule,))
    assert found["faults"] == []
    assert found["container"]["image"] == f"{OWN}/allowed/docker-hub/library/{wanted}:v1"
    assert found["container"]["digest"] == image.manifest.digest
    again = checked(found["container"]["image"], registries=(), pull_through=(rule,))
    assert again["container"]["digest"] == image.manifest.digest
