"""A host resolves the names of registries, and its programs trust their certificate."""

import uuid
from pathlib import Path

from localcloud.base import root_key
from localcloud.cli.image_build import build
from localcloud.cli.images import Pusher
from tests.contract.hosts.conftest import Hosts

FETCH = """
import json, re, urllib.error, urllib.request
url = "https://registry-1.docker.io/v2/{name}/manifests/v1"
try:
    urllib.request.urlopen(url)
except urllib.error.HTTPError as refusal:
    words = dict(re.findall(r'(\\w+)="([^"]*)"', refusal.headers["WWW-Authenticate"]))
token = json.load(urllib.request.urlopen(words["realm"] + "?scope=" + words["scope"]))["token"]
request = urllib.request.Request(url, headers=dict(Authorization="Bearer " + token))
print(urllib.request.urlopen(request).headers["Docker-Content-Digest"])
"""


def test_a_host_reads_an_image_by_the_name_of_its_registry(
    shared: Hosts, pair: list[str], tmp_path: Path
) -> None:
    name = f"team/{uuid.uuid4().hex[:12]}"
    (tmp_path / "file").write_text("content")
    image = build([tmp_path])
    Pusher(shared.cloud.port, root_key.load_key(shared.cloud.state), f"{name}:v1").push([image])
    code = FETCH.format(name=name)
    assert shared.run(pair[0], f"python3 - <<'END'\n{code}END") == image.manifest.digest
