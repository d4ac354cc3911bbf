"""`push`: an image from folders, in a registry of the local cloud."""

from __future__ import annotations

import re
import shlex
import urllib.error
import urllib.request
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from localcloud.base import root_key
from localcloud.base.quantities import format_count
from localcloud.base.registries import DOCKER_HUB, registry_of
from localcloud.base.root_key import RootKey
from localcloud.cli.image_build import Blob, Image, Settings, build, index
from localcloud.cli.state import DEFAULT_STATE, State, existing_state, fail, port_of

NAME = re.compile(
    r"(?:(?P<registry>[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+(?::\d+)?)/)?"
    r"(?P<repository>[a-z0-9]+(?:[._/-]+[a-z0-9]+)*)(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?"
)
"""An image as `docker push` reads it. Without a registry it is one of Docker Hub."""
ARCHITECTURES = ("amd64", "arm64")


class Pusher:
    """Uploads to one repository, with the root's key."""

    def __init__(self, port: int, root: RootKey, image: str, login: str = "") -> None:
        found = NAME.fullmatch(image)
        if found is None:
            raise ValueError(f"{image!r} is not an image; write [REGISTRY/]REPOSITORY[:TAG]")
        registry = registry_of(found["registry"] or DOCKER_HUB)
        repository = found["repository"]
        if registry == DOCKER_HUB and "/" not in repository:
            repository = f"library/{repository}"
        self.name, self.tag = f"{registry}/{repository}", found["tag"] or "latest"
        self._base, self._space = f"http://127.0.0.1:{port}/v2/{repository}", f"ns={registry}"
        self._headers = {"Authorization": root.as_basic(), "X-Localcloud-Login": login}

    def push(self, images: list[Image]) -> str:
        """Upload an image for each architecture, and return the digest of the tag."""
        for image in images:
            for blob in (image.config, *image.layers):
                self._upload(blob)
            self._put(image.manifest, image.manifest.digest if len(images) > 1 else self.tag)
        if len(images) == 1:
            return images[0].manifest.digest
        listed = index(images)
        self._put(listed, self.tag)
        return listed.digest

    def _upload(self, blob: Blob) -> None:
        address = f"{self._base}/blobs/uploads/?{self._space}&digest={quote(blob.digest)}"
        self._send("POST", address, blob.content, "application/octet-stream")

    def _put(self, manifest: Blob, name: str) -> None:
        self._send("PUT", f"{self._base}/manifests/{name}?{self._space}", manifest.content, manifest.kind)

    def _send(self, method: str, address: str, content: bytes, kind: str) -> None:
        headers = {**self._headers, "Content-Type": kind}
        headers = {name: value for name, value in headers.items() if value}
        request = urllib.request.Request(address, content, headers, method=method)  # noqa: S310 - loopback
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=600) as answer:
            answer.read()


def push(
    image: Annotated[
        str, typer.Argument(metavar="IMAGE", help="Name of the image: [REGISTRY/]REPOSITORY[:TAG].")
    ],
    folders: Annotated[
        list[Path], typer.Argument(metavar="FOLDER...", help="Folders with the files, a layer each.")
    ],
    user: Annotated[str, typer.Option(help="USER: a name or number of the image's passwd.")] = "",
    entrypoint: Annotated[str, typer.Option(help="ENTRYPOINT, as words of a shell.")] = "",
    command: Annotated[str, typer.Option("--cmd", help="CMD, as words of a shell.")] = "",
    environment: Annotated[
        list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="ENV. May be repeated.")
    ] = None,
    workdir: Annotated[str, typer.Option(help="WORKDIR.")] = "",
    architecture: Annotated[
        list[str] | None, typer.Option("--arch", help="amd64 or arm64. May be repeated. Default: amd64.")
    ] = None,
    login: Annotated[
        str, typer.Option(metavar="USER:PASSWORD", help="Login that the repository requires.")
    ] = "",
    state: State = DEFAULT_STATE,
) -> None:
    """Make a container image from folders, and push it to a registry of the local cloud."""
    if missing := [str(folder) for folder in folders if not folder.is_dir()]:
        fail(f"{', '.join(missing)} is not a folder. Nothing was pushed.")
    if wrong := [each for each in architecture or () if each not in ARCHITECTURES]:
        fail(
            f"{wrong[0]} is an unknown architecture; allowed are {', '.join(ARCHITECTURES)}. Nothing was pushed."
        )
    images = [
        build(
            folders,
            Settings(
                user=user,
                entrypoint=shlex.split(entrypoint),
                command=shlex.split(command),
                environment=dict(each.partition("=")[::2] for each in environment or ()),
                folder=workdir,
                architecture=each,
            ),
        )
        for each in architecture or [ARCHITECTURES[0]]
    ]
    try:
        pusher = Pusher(port_of(state), root_key.load_key(existing_state(state)), image, login)
        digest = pusher.push(images)
    except ValueError as error:
        fail(f"{error}. Nothing was pushed.")
    except urllib.error.HTTPError as refusal:
        fail(f"The registry refuses the image: {refusal.read().decode(errors='replace')}")
    except OSError as error:
        fail(f"The local cloud does not answer: {error}.")
    size = sum(len(layer.content) for built in images for layer in built.layers)
    layers = format_count(len(folders) * len(images), "layer")
    print(f"{pusher.name}:{pusher.tag} is {digest} ({size / 1e6:.1f} MB in {layers})")
