"""Registries: images are pushed, and functions pull them by name with the access that their role or a login gives."""

from __future__ import annotations

import base64
import hashlib
import json
import urllib.error
import urllib.request
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.base import root_key
from localcloud.cli import image_build
from localcloud.cli.images import Pusher
from tests.contract.conftest import ACCOUNT, REGION, Cloud, Credentials, allow

OWN = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com"
PULL = ["ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
SIZE = 300_000
FETCH = """
import base64, json, urllib.error, urllib.request

def handler(event, context):
    request = urllib.request.Request(event["url"], headers=event["headers"])
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            found = {"status": answer.status, "headers": dict(answer.headers)}
            return {**found, "body": base64.b64encode(answer.read()).decode()}
    except urllib.error.HTTPError as refusal:
        return {"status": refusal.code, "headers": dict(refusal.headers), "body": ""}
    except (OSError, Exception) as error:
        return {"status": 0, "headers": {}, "body": "", "error": f"{type(error).__name__}: {error}"}
"""


@pytest.fixture(scope="module")
def fetch(cloud: Cloud) -> str:
    """Return a function that reads an address."""
    return cloud.function(FETCH, Timeout=30)


class Reader:
    """Reads a registry from inside a function, which resolves its name and trusts its certificate."""

    def __init__(self, cloud: Cloud, function: str) -> None:
        self._cloud, self._function = cloud, function

    def get(self, url: str, **headers: str) -> tuple[int, Mapping[str, str], bytes]:
        event = json.dumps({"url": url, "headers": headers})
        answer = self._cloud.client("lambda").invoke(FunctionName=self._function, Payload=event)
        found = json.load(answer["Payload"])
        headers = {name.lower(): value for name, value in found["headers"].items()}
        return found["status"], headers, base64.b64decode(found["body"]) or found.get("error", "").encode()

    def token(self, challenge: str, login: str = "") -> str:
        """Return the token that a challenge asks for."""
        words = dict(part.split("=", 1) for part in challenge.removeprefix("Bearer ").split(","))
        known = {name: value.strip('"') for name, value in words.items()}
        basic = {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"} if login else {}
        url = f"{known['realm']}?service={known['service']}&scope={known.get('scope', '')}"
        status, _, body = self.get(url, **basic)
        return str(json.loads(body)["token"]) if status == 200 else str(status)


@pytest.fixture
def reader(cloud: Cloud, fetch: str) -> Reader:
    return Reader(cloud, fetch)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/true").write_bytes(uuid.uuid4().bytes * (SIZE // 16))
    return tmp_path


def push(cloud: Cloud, name: str, folder: Path, login: str = "", *architectures: str) -> image_build.Image:
    built = [
        image_build.build([folder], image_build.Settings(user="1000", command=["true"], architecture=each))
        for each in architectures or ("amd64",)
    ]
    Pusher(cloud.port, root_key.load_key(cloud.state), name, login).push(built)
    return built[0]


def unique() -> str:
    return f"team/{uuid.uuid4().hex[:12]}"


def password(cloud: Cloud, who: Credentials | None = None) -> str:
    found = cloud.client("ecr", who).get_authorization_token()["authorizationData"][0]
    assert found["proxyEndpoint"] == f"https://{OWN}"
    return f"Basic {found['authorizationToken']}"


def test_ecr_lists_a_pushed_image_with_the_size_of_its_layers(cloud: Cloud, folder: Path) -> None:
    name, ecr = unique(), cloud.client("ecr")
    ecr.create_repository(repositoryName=name)
    image = push(cloud, f"{OWN}/{name}:v1", folder)
    (detail,) = ecr.describe_images(repositoryName=name)["imageDetails"]
    assert detail["imageTags"] == ["v1"]
    assert detail["imageDigest"] == image.manifest.digest
    assert detail["imageSizeInBytes"] == len(image.layers[0].content)
    (found,) = ecr.batch_get_image(repositoryName=name, imageIds=[{"imageTag": "v1"}])["images"]
    assert found["imageManifest"].encode() == image.manifest.content
    missing = ecr.batch_get_image(repositoryName=name, imageIds=[{"imageTag": "v2"}])["failures"]
    assert [failure["failureCode"] for failure in missing] == ["ImageNotFound"]
    with pytest.raises(ClientError, match="RepositoryNotFoundException"):
        ecr.batch_get_image(repositoryName=unique(), imageIds=[{"imageTag": "v1"}])


def test_a_moved_tag_leaves_the_old_digest(cloud: Cloud, folder: Path) -> None:
    name, ecr = unique(), cloud.client("ecr")
    old = push(cloud, f"{OWN}/{name}:v1", folder)
    (folder / "bin/true").write_bytes(b"new")
    new = push(cloud, f"{OWN}/{name}:v1", folder)
    asked = [{"imageTag": "v1"}, {"imageDigest": old.manifest.digest}]
    images = ecr.batch_get_image(repositoryName=name, imageIds=asked)["images"]
    digests = [image["imageId"]["imageDigest"] for image in images]
    assert digests == [new.manifest.digest, old.manifest.digest]


def test_a_role_pulls_from_ecr_what_its_policy_allows(cloud: Cloud, folder: Path, reader: Reader) -> None:
    mine, other = unique(), unique()
    image = push(cloud, f"{OWN}/{mine}:v1", folder)
    push(cloud, f"{OWN}/{other}:v1", folder)
    repository = f"arn:aws:ecr:{REGION}:{ACCOUNT}:repository/{mine}"
    who = cloud.acting_as(allow("ecr:GetAuthorizationToken"), allow(PULL, repository))
    key = {"Authorization": password(cloud, who)}
    status, headers, body = reader.get(f"https://{OWN}/v2/{mine}/manifests/v1", **key)
    assert (status, body) == (200, image.manifest.content)
    assert headers["docker-content-digest"] == image.manifest.digest
    assert headers["content-type"] == image_build.MANIFEST
    assert reader.get(f"https://{OWN}/v2/{other}/manifests/v1", **key)[0] == 403
    status, headers, _ = reader.get(f"https://{OWN}/v2/{mine}/manifests/v1")
    assert (status, headers["www-authenticate"].split()[0]) == (401, "Basic")
    nobody = cloud.acting_as(allow(PULL))
    with pytest.raises(ClientError, match="ecr:GetAuthorizationToken"):
        cloud.client("ecr", nobody).get_authorization_token()


def test_a_layer_comes_from_ecrs_bucket_whole_or_in_parts(cloud: Cloud, folder: Path, reader: Reader) -> None:
    name, ecr = unique(), cloud.client("ecr")
    layer = push(cloud, f"{OWN}/{name}:v1", folder).layers[0]
    url = ecr.get_download_url_for_layer(repositoryName=name, layerDigest=layer.digest)["downloadUrl"]
    status, _, body = reader.get(url)
    assert (status, hashlib.sha256(body).hexdigest()) == (200, layer.digest.removeprefix("sha256:"))
    status, headers, body = reader.get(url, Range="bytes=10-19")
    assert (status, body) == (206, layer.content[10:20])
    assert headers["content-range"] == f"bytes 10-19/{len(layer.content)}"
    assert reader.get(url, Authorization=password(cloud))[0] == 400
    assert reader.get(url.replace("sha256:", "sha256:0"))[0] == 403
    assert reader.get(f"{url}0")[0] == 403
    with pytest.raises(ClientError, match="LayersNotFoundException"):
        ecr.get_download_url_for_layer(repositoryName=name, layerDigest="sha256:" + "0" * 64)


@pytest.mark.parametrize(
    ("registry", "address", "realm"),
    [
        ("docker.io", "registry-1.docker.io", "auth.docker.io"),
        ("nvcr.io", "nvcr.io", "nvcr.io"),
        ("ghcr.io", "ghcr.io", "ghcr.io"),
    ],
)
def test_another_registry_wants_a_token_also_for_public_images(
    cloud: Cloud, folder: Path, reader: Reader, registry: str, address: str, realm: str
) -> None:
    name = unique()
    image = push(cloud, f"{registry}/{name}:v1", folder)
    url = f"https://{address}/v2/{name}/manifests"
    status, headers, _ = reader.get(f"{url}/v1")
    assert status == 401
    assert f'realm="https://{realm}/token"' in headers["www-authenticate"]
    key = {"Authorization": f"Bearer {reader.token(headers['www-authenticate'])}"}
    assert reader.get(f"{url}/v1", **key)[2] == image.manifest.content
    assert reader.get(f"{url}/v2", **key)[0] == 404
    layer = image.layers[0]
    blob = f"https://{address}/v2/{name}/blobs/{layer.digest}"
    assert reader.get(blob, **key, Range="bytes=5-")[2] == layer.content[5:]
    assert reader.get(f"https://{address}/v2/{unique()}/manifests/v1", **key)[0] == 401


def test_a_private_image_needs_its_login(cloud: Cloud, folder: Path, reader: Reader) -> None:
    name = unique()
    image = push(cloud, f"nvcr.io/{name}:v1", folder, "$oauthtoken:secret")
    url = f"https://nvcr.io/v2/{name}/manifests/v1"
    challenge = reader.get(url)[1]["www-authenticate"]
    anonymous = {"Authorization": f"Bearer {reader.token(challenge)}"}
    status, headers, _ = reader.get(url, **anonymous)
    assert status == 401
    assert "insufficient_scope" in headers["www-authenticate"]
    assert reader.token(challenge, "$oauthtoken:wrong") == "401"
    key = {"Authorization": f"Bearer {reader.token(challenge, '$oauthtoken:secret')}"}
    assert reader.get(url, **key)[2] == image.manifest.content


def test_an_image_of_two_architectures_is_a_list(cloud: Cloud, folder: Path) -> None:
    name = unique()
    push(cloud, f"{OWN}/{name}:v1", folder, "", "amd64", "arm64")
    (found,) = cloud.client("ecr").batch_get_image(repositoryName=name, imageIds=[{"imageTag": "v1"}])[
        "images"
    ]
    listed = json.loads(found["imageManifest"])
    assert found["imageManifestMediaType"] == image_build.INDEX
    assert [each["platform"]["architecture"] for each in listed["manifests"]] == ["amd64", "arm64"]


@pytest.mark.parametrize(("kind", "status"), [("unauthorized", 401), ("missing", 404), ("busy", 429)])
def test_a_registry_refuses_on_request(
    cloud: Cloud, folder: Path, reader: Reader, kind: str, status: int
) -> None:
    name = unique()
    push(cloud, f"{OWN}/{name}:v1", folder)
    cloud.command("fault", "registry", kind, f"{OWN}/{name}")
    url, key = f"https://{OWN}/v2/{name}/manifests/v1", {"Authorization": password(cloud)}
    assert reader.get(url, **key)[0] == status
    assert reader.get(url, **key)[0] == 200


def test_a_layer_breaks_off_and_arrives_damaged_on_request(
    cloud: Cloud, folder: Path, reader: Reader
) -> None:
    name = unique()
    layer = push(cloud, f"docker.io/{name}:v1", folder).layers[0]
    url = f"https://registry-1.docker.io/v2/{name}/blobs/{layer.digest}"
    key = {"Authorization": f"Bearer {reader.token(reader.get(url)[1]['www-authenticate'])}"}
    cloud.command("fault", "registry", "truncated", f"docker.io/{name}")
    assert b"IncompleteRead" in reader.get(url, **key)[2]
    cloud.command("fault", "registry", "corrupt", f"docker.io/{name}")
    status, _, body = reader.get(url, **key)
    assert status == 200
    assert len(body) == len(layer.content)
    assert body != layer.content
    assert reader.get(url, **key)[2] == layer.content


def test_the_command_makes_the_same_image_of_the_same_folder(cloud: Cloud, folder: Path) -> None:
    name = unique()
    first, again = (
        cloud.command(
            "push", f"{OWN}/{name}:v1", str(folder), "--user", "1000", "--cmd", "sh -c 'exit 3'"
        ).stdout
        for _ in range(2)
    )
    assert first == again
    assert first.startswith(f"{OWN}/{name}:v1 is sha256:")
    failed = cloud.command("push", "Team/x", str(folder), check=False)
    assert failed.returncode
    assert "'Team/x' is not an image" in failed.stderr


def test_only_the_root_pushes_outside_of_ecr(cloud: Cloud) -> None:
    request = urllib.request.Request(
        f"{cloud.endpoint}/v2/{unique()}/blobs/uploads/?ns=nvcr.io", b"x", method="POST"
    )
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(request, timeout=30)


def test_images_survive_a_restart(own_cloud: Cloud, folder: Path) -> None:
    name = unique()
    image = push(own_cloud, f"{OWN}/{name}:v1", folder)
    own_cloud.down()
    own_cloud.up()
    ecr: Any = own_cloud.client("ecr")
    (found,) = ecr.batch_get_image(repositoryName=name, imageIds=[{"imageTag": "v1"}])["images"]
    assert found["imageId"]["imageDigest"] == image.manifest.digest
    assert ecr.get_download_url_for_layer(repositoryName=name, layerDigest=image.layers[0].digest)
