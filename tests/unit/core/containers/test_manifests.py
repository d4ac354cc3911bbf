"""Manifests and lists of architectures, as registries send them."""

import json
import re
from typing import Any

import pytest

from lambdas.core.containers import manifests
from lambdas.core.containers.manifests import Index, Single, UnreadableManifestError
from trainyard.protocol.containers import LAYERS, Manifest

DIGESTS = ["sha256:" + letter * 64 for letter in "abcd"]


def _listed(digest: str, system: str, architecture: str) -> dict[str, Any]:
    return {"digest": digest, "size": 5, "platform": {"os": system, "architecture": architecture}}


def _bytes(document: Any) -> bytes:
    return json.dumps(document).encode()


def test_a_list_names_the_manifest_of_each_architecture_of_hosts() -> None:
    listed = [
        _listed(DIGESTS[0], "linux", "amd64"),
        _listed(DIGESTS[1], "linux", "arm64"),
        _listed(DIGESTS[2], "windows", "amd64"),
        _listed(DIGESTS[3], "unknown", "unknown"),
    ]
    found = manifests.read(_bytes({"schemaVersion": 2, "manifests": listed}))
    assert found == Index({"amd64": DIGESTS[0], "arm64": DIGESTS[1]}, ("windows/amd64",))


def test_a_manifest_has_the_sum_of_its_layers_and_a_configuration() -> None:
    layers = [{"mediaType": LAYERS[1], "size": 5}, {"mediaType": LAYERS[5], "size": 7}]
    document = {"config": {"digest": DIGESTS[0]}, "layers": layers}
    found = manifests.read(_bytes(document))
    assert found == Single(DIGESTS[0], 2, 12)
    inside = {"User": "1000", "Cmd": ["true"], "Entrypoint": []}
    config = _bytes({"architecture": "arm64", "os": "linux", "config": inside})
    manifest = Manifest(digest=DIGESTS[1], layers=2, size=12, user="1000", has_entrypoint=False)
    assert manifests.pin(DIGESTS[1], found, config) == ("arm64", manifest)
    assert manifests.pin(DIGESTS[1], found, _bytes({"architecture": "amd64", "os": "windows"}))[0] == (
        "windows/amd64"
    )


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"<html>",
        b"[]",
        b'{"schemaVersion": 1, "fsLayers": []}',
        b'{"config": {"digest": "sha256:12"}, "layers": []}',
        b'{"config": {"digest": "%s"}, "layers": [{}]}' % DIGESTS[0].encode(),
        b'{"config": {"digest": "%s"}, "layers": [{"size": -1}]}' % DIGESTS[0].encode(),
        b'{"manifests": [{"platform": {"os": "linux", "architecture": "amd64"}}]}',
    ],
)
def test_any_other_document_is_no_manifest(document: bytes) -> None:
    with pytest.raises(UnreadableManifestError, match="its manifest"):
        manifests.read(document)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", "lies outside of its registry"),
        ("application/vnd.oci.image.layer.nondistributable.v1.tar", "lies outside of its registry"),
        ("application/vnd.cncf.helm.chart.content.v1.tar+gzip", "is not a container image"),
        ("application/vnd.oci.image.layer.v1.tar+gzip+encrypted", "push it again with `docker buildx build"),
        (None, "is not a container image"),
    ],
)
def test_a_layer_that_no_host_unpacks_is_refused_before_the_launch(kind: str | None, says: str) -> None:
    layers = [{"mediaType": LAYERS[0], "size": 5}, {"mediaType": kind, "size": 5}]
    with pytest.raises(
        UnreadableManifestError, match=f"it has a layer of the type {re.escape(str(kind))}.*{says}"
    ):
        manifests.read(_bytes({"config": {"digest": DIGESTS[0]}, "layers": layers}))


def test_a_configuration_without_an_architecture_is_no_image() -> None:
    with pytest.raises(UnreadableManifestError, match="names no architecture"):
        manifests.pin(DIGESTS[1], Single(DIGESTS[0], 0, 0), b"{}")


def test_a_configuration_names_the_cuda_that_the_image_needs() -> None:
    found = manifests.read(_bytes({"config": {"digest": DIGESTS[0]}, "layers": []}))
    assert isinstance(found, Single)
    env = ["PATH=/bin", "CUDA_VERSION=12.4.1", "NVIDIA_REQUIRE_CUDA=cuda>=12.4 brand=tesla,driver>=535"]
    config = {"architecture": "amd64", "os": "linux", "config": {"Env": env}}
    _, manifest = manifests.pin(DIGESTS[1], found, _bytes(config))
    assert (manifest.cuda, manifest.requires) == ("12.4.1", "cuda>=12.4 brand=tesla,driver>=535")
    config["config"] = {"Env": [*env, "NVIDIA_DISABLE_REQUIRE=1"]}
    assert manifests.pin(DIGESTS[1], found, _bytes(config))[1].requires == ""
