"""A pull from a small registry with faults: tokens, damaged and cut layers, refusals, other architectures."""

import base64
import gzip
import hashlib
import io
import json
import platform
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from training.host import account
from training.host.container import kept
from training.host.container.configuration import ARCHITECTURES
from training.host.container.pull import Image, describe, folder_of, pull
from training.host.container.registry import Login, Registry
from training.host.errors import Damaged, HostTrouble, Missing, ProgramFault, Unreachable
from training.host.paths import Paths

OWN = ARCHITECTURES[platform.machine()]
OTHER = next(name for name in ARCHITECTURES.values() if name != OWN)
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
GZIPPED = "application/vnd.oci.image.layer.v1.tar+gzip"


@dataclass
class Served:
    """The contents and the faults of the registry."""

    blobs: dict[str, bytes] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    token: str = ""
    """The token that requests need, which the realm gives for `ann:secret`."""
    faults: dict[str, list[Any]] = field(default_factory=dict)
    """For a path's last part: the bytes after which the answer is cut, `damaged`, or a status with headers. Each
    request takes one."""
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def add(self, content: bytes) -> str:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        self.blobs[digest] = content
        return digest


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served: Served

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        path, last = urlsplit(self.path).path, self.path.rpartition("/")[2]
        self.served.asked.append((self.path, dict(self.headers)))
        if path == "/token":
            self._give_token()
            return
        if self.served.token and self.headers.get("Authorization") != f"Bearer {self.served.token}":
            challenge = f'Bearer realm="http://{self.headers["Host"]}/token",service="s",scope="repository:team/train:pull"'
            self._answer(401, b"", {"WWW-Authenticate": challenge})
            return
        faults = self.served.faults.get(last, [])
        fault = faults.pop(0) if faults else None
        if isinstance(fault, tuple):
            self._answer(fault[0], b"", fault[1])
            return
        content = self.served.blobs.get(self.served.tags.get(last, last))
        if content is None:
            self._answer(404, b"", {})
            return
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")[0])
        content = content[start:]
        if fault == "damaged":
            content = b"\0" + content[1:]
        self._answer(206 if start else 200, content, {}, cut=fault if isinstance(fault, int) else None)

    def _give_token(self) -> None:
        wanted = f"Basic {base64.b64encode(b'ann:secret').decode()}"
        if self.headers.get("Authorization") != wanted:
            self._answer(401, b"{}", {})
            return
        assert parse_qs(urlsplit(self.path).query)["scope"] == ["repository:team/train:pull"]
        self._answer(200, json.dumps({"token": self.served.token}).encode(), {})

    def _answer(self, status: int, body: bytes, headers: dict[str, str], *, cut: int | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:cut])
        if cut is not None:
            self.close_connection = True


@pytest.fixture
def served() -> Iterator[Served]:
    served = Served()
    handler = type("OwnHandler", (Handler,), {"served": served})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        served.tags["port"] = str(server.server_address[1])
        yield served
        server.shutdown()


def layer(**files: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content.encode()))
    return gzip.compress(packed.getvalue(), mtime=0)


def push(
    served: Served, *layers: bytes, architecture: str = OWN, kind: str = GZIPPED, tag: str = "v1"
) -> str:
    """Push an image with an index, and return the digest of its manifest."""
    config = json.dumps(
        {
            "os": "linux",
            "architecture": architecture,
            "config": {
                "Entrypoint": ["/run"],
                "Cmd": ["all"],
                "Env": ["A=1"],
                "User": "7",
                "WorkingDir": "/work",
            },
        }
    ).encode()
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"digest": served.add(config), "size": len(config)},
            "layers": [{"mediaType": kind, "digest": served.add(each), "size": len(each)} for each in layers],
        }
    ).encode()
    digest = served.add(manifest)
    platform_of = {"os": "linux", "architecture": architecture}
    index = {
        "schemaVersion": 2,
        "mediaType": INDEX,
        "manifests": [{"digest": digest, "platform": platform_of}],
    }
    served.tags[tag] = served.add(json.dumps(index).encode())
    return digest


def registry(served: Served, *, login: str = "", stopped: bool = False) -> tuple[Registry, list[float]]:
    slept: list[float] = []
    made = Registry(
        url=f"http://127.0.0.1:{served.tags['port']}",
        repository="team/train",
        name="registry.example.com/team/train",
        login=lambda: Login(basic=login),
        stopped=lambda: stopped,
        sleep=slept.append,
    )
    return made, slept


def get(served: Served, folder: Path, version: str, *, login: str = "") -> tuple[Image, list[str]]:
    told: list[str] = []
    image = pull(registry(served, login=login)[0], version, folder, tell=told.append)
    return image, told


def files(image: Image) -> dict[str, str]:
    return {path.name: path.read_text() for path in image.root.iterdir()}


def test_a_tag_leads_through_the_index_to_the_image_of_this_machine(served: Served, tmp_path: Path) -> None:
    digest = push(served, layer(a="1", b="2"), layer(b="3"))
    image, told = get(served, tmp_path, "v1")
    assert image.digest == digest
    assert files(image) == {"a": "1", "b": "3"}
    assert image.root.parent == folder_of(tmp_path, digest)
    assert image.configuration.entrypoint == ("/run",)
    assert (image.configuration.user, image.configuration.folder) == ("7", "/work")
    assert "2 layers" in told[-1]
    assert sorted(path.name for path in image.root.parent.iterdir()) == ["image.json", "root"]


def test_an_image_that_is_on_the_host_is_not_pulled_again(served: Served, tmp_path: Path) -> None:
    digest = push(served, layer(a="1"))
    first, _ = get(served, tmp_path, digest)
    served.asked.clear()
    again, told = get(served, tmp_path, digest)
    assert (again, served.asked) == (first, [])
    assert told == ["the image is on this host already: nothing is pulled"]


def test_a_private_registry_gets_a_login_and_gives_a_token(served: Served, tmp_path: Path) -> None:
    digest = push(served, layer(a="1"))
    served.token = "given"
    assert files(get(served, tmp_path, digest, login="ann:secret")[0]) == {"a": "1"}


@pytest.mark.parametrize("login", ["", "ann:wrong"])
def test_a_wrong_login_ends_the_run_and_names_the_remedy(served: Served, tmp_path: Path, login: str) -> None:
    digest = push(served, layer(a="1"))
    served.token = "given"
    with pytest.raises(HostTrouble, match=r"access denied: .*program\.container\.login") as raised:
        get(served, tmp_path, digest, login=login)
    assert raised.value.final


def test_a_layer_that_is_cut_continues_where_it_stopped(served: Served, tmp_path: Path) -> None:
    content = layer(a="1" * 5000)
    push(served, content)
    digest = served.add(content)
    served.faults[digest] = [10, 20]
    made, slept = registry(served)
    arrived: list[int] = []
    made.fetch_blob(digest, tmp_path / "blob", arrived=arrived.append)
    assert (tmp_path / "blob").read_bytes() == content
    assert sum(arrived) == len(content)
    ranges = [headers.get("Range") for path, headers in served.asked if path.endswith(digest)]
    assert ranges == [None, "bytes=10-", "bytes=30-"]
    assert slept


@pytest.mark.parametrize("damaged", ["layer", "configuration"])
def test_a_blob_with_another_checksum_is_fetched_again(served: Served, tmp_path: Path, damaged: str) -> None:
    content = layer(a="1")
    digest = push(served, content)
    configuration = json.loads(served.blobs[digest])["config"]["digest"]
    blob = served.add(content) if damaged == "layer" else configuration
    served.faults[blob] = ["damaged", "damaged", "damaged"]
    assert files(get(served, tmp_path, digest)[0]) == {"a": "1"}


def test_a_layer_with_another_checksum_four_times_is_a_failed_start_and_no_fault_of_the_program(
    served: Served, tmp_path: Path
) -> None:
    content = layer(a="1")
    digest = push(served, content)
    served.faults[served.add(content)] = ["damaged"] * 4
    with pytest.raises(Damaged, match="4 times with another checksum") as raised:
        get(served, tmp_path, digest)
    assert not raised.value.final
    assert not isinstance(raised.value, ProgramFault)
    assert not folder_of(tmp_path, digest).exists()
    assert files(get(served, tmp_path, digest)[0]) == {"a": "1"}


def test_a_layer_without_progress_is_given_up_after_four_tries(served: Served, tmp_path: Path) -> None:
    content = layer(a="1")
    digest = push(served, content)
    served.faults[served.add(content)] = [0] * 4
    with pytest.raises(Unreachable, match="after 0 bytes, 4 times"):
        get(served, tmp_path, digest)


def test_a_registry_with_too_many_requests_is_waited_for_as_long_as_it_asks(
    served: Served, tmp_path: Path
) -> None:
    digest = push(served, layer(a="1"))
    served.faults[digest] = [(429, {"Retry-After": "7"}), (429, {})]
    made, slept = registry(served)
    pull(made, digest, tmp_path, tell=lambda line: None)
    assert sum(slept) == 7 + 15


def test_an_image_that_was_deleted_since_names_its_digest(served: Served, tmp_path: Path) -> None:
    digest = push(served, layer(a="1"))
    del served.blobs[digest]
    with pytest.raises(Missing, match=f"has no manifests/{digest} any more") as raised:
        get(served, tmp_path, digest)
    assert raised.value.final


@pytest.mark.parametrize("status", [500, 503])
def test_a_registry_that_does_not_work_is_tried_again_by_the_agent(
    served: Served, tmp_path: Path, status: int
) -> None:
    digest = push(served, layer(a="1"))
    served.faults[digest] = [(status, {})]
    with pytest.raises(Unreachable, match=str(status)):
        get(served, tmp_path, digest)


def test_a_registry_that_nothing_reaches_names_the_ways(tmp_path: Path) -> None:
    nowhere = Registry(url="http://127.0.0.1:1", repository="a", name="a/a", sleep=lambda seconds: None)
    with pytest.raises(Unreachable, match="a NAT gateway or, for ECR"):
        nowhere.manifest("v1")


def test_other_bytes_than_those_of_the_digest_are_refused(served: Served) -> None:
    digest = push(served, layer(a="1"))
    served.blobs[digest] = b"{}"
    with pytest.raises(Damaged):
        registry(served)[0].manifest(digest)


def test_an_image_for_another_architecture_is_refused_with_the_command_that_builds_it(
    served: Served, tmp_path: Path
) -> None:
    digest = push(served, layer(a="1"), architecture=OTHER)
    for version in ("v1", digest):
        with pytest.raises(ProgramFault, match=f"is for {OTHER}, and this host is {OWN}: build it with"):
            get(served, tmp_path, version)


def test_a_layer_that_no_host_reads_is_refused(served: Served, tmp_path: Path) -> None:
    digest = push(served, layer(a="1"), kind="application/vnd.oci.image.layer.v1.tar+xz")
    with pytest.raises(HostTrouble, match=r"layer of the type application/vnd.*\+xz") as raised:
        get(served, tmp_path, digest)
    assert raised.value.final


def test_a_host_that_has_to_leave_stops_the_pull(served: Served, tmp_path: Path) -> None:
    digest = push(served, layer(a="1"))
    with pytest.raises(Unreachable, match="has to leave"):
        pull(registry(served, stopped=True)[0], digest, tmp_path, tell=lambda line: None)


def test_a_pull_is_described_by_bytes_rate_and_remainder() -> None:
    assert describe(1_500_000_000, 3_400_000_000, 95e6) == "1.5 GB of 3.4 GB have arrived, 95 MB/s, 20 s left"
    assert describe(50_000_000, 50_000_000, 0) == "50.0 MB of 50.0 MB have arrived, 0 MB/s"


# ------------------------------------------------------------------------------------------------------- kept images


def _run_of(served: Served, paths: Paths, digest: str) -> Image:
    """Pull the image of a run as the agent does, and note its files."""
    kept.give(digest, paths, account.own())
    image, _ = get(served, paths.containers, digest)
    kept.note(digest, paths)
    return image


def test_an_unchanged_image_is_kept_for_the_next_run_and_another_one_stays(
    served: Served, tmp_path: Path
) -> None:
    paths = Paths(tmp_path)
    first, second = push(served, layer(a="1")), push(served, layer(a="2"), tag="v2")
    for digest in (first, second):
        _run_of(served, paths, digest)
        kept.take(paths)
    assert not folder_of(paths.containers, first).exists()
    served.asked.clear()
    assert files(_run_of(served, paths, first)) == {"a": "1"}
    assert served.asked == []
    assert folder_of(paths.kept_images, second).exists()
    assert paths.kept_images.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("change", ["write", "add", "replace", "mode"])
def test_an_image_of_which_anything_has_changed_is_not_kept(
    served: Served, tmp_path: Path, change: str
) -> None:
    paths = Paths(tmp_path)
    digest = push(served, layer(a="1"))
    image = _run_of(served, paths, digest)
    file = image.root / "a"
    if change == "write":
        file.write_text("2")
    elif change == "add":
        (image.root / "b").touch()
    elif change == "replace":
        file.rename(image.root / "c")
        (image.root / "c").rename(file)
    else:
        file.chmod(0o4755)
    kept.take(paths)
    assert not folder_of(paths.kept_images, digest).exists()


def test_the_oldest_images_make_room_when_the_disk_is_short(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = Paths(tmp_path)
    digests = [push(served, layer(a=str(number)), tag=str(number)) for number in range(2)]
    for digest in digests:
        _run_of(served, paths, digest)
        kept.take(paths)
    monkeypatch.setattr(kept, "LEAST_FREE", 1.1)
    kept.make_room(paths)
    assert list(paths.kept_images.iterdir()) == []
