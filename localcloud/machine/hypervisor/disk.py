"""Disks: image layers that many hosts share, and one thin layer of changes for each host (overlayfs).

    <state>/images/<ami>/layer       what this image adds to the images below it
    <state>/images/<ami>/image.json  {"below": [image ids, nearest first], "base": image id, "deleted": false}
    <state>/instances/<id>/upper     what this host changed
    <state>/instances/<id>/disk.json {"layers": [image ids, nearest first], "base": image id}

The layer of a base image holds the files in the settings. Below all base images is the same bare system. Each file is
written once: a launch creates an empty layer, and a capture copies only the changes of one host.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SYSTEM = "base-5"
"""Name of the bare system below all images.

Raise the number when `_write_skeleton` changes, so that existing state folders get the new system.
"""


class DiskError(Exception):
    """A disk could not be copied. The message holds the output of the copy command."""


@dataclass(frozen=True)
class Disk:
    """A host's disk, ready to mount. Layers are paths relative to the state folder, nearest first."""

    layers: tuple[str, ...]
    base: str
    """Base image at the bottom."""


class Disks:
    def __init__(self, state: Path) -> None:
        self._images = state / "images"
        self._instances = state / "instances"
        self._lock = threading.Lock()
        for folder in (self._images, self._instances):
            folder.mkdir(parents=True, exist_ok=True)
        if not (self._images / SYSTEM / "image.json").exists():
            with self._new_image(SYSTEM, {"below": [], "base": SYSTEM}) as layer:
                _write_skeleton(layer)
        for folder in (self._images, self._instances):
            for unfinished in folder.glob(".*"):  # leftovers of a killed server
                _forget_mount(unfinished)
                shutil.rmtree(unfinished)
        for instance in self._instances.iterdir():
            _forget_mount(instance)

    def provide(self, image_id: str, files: Mapping[str, str]) -> None:
        """Set the files (path -> content) of a base image. Call this only while no host runs."""
        with self._new_image(image_id, {"below": [SYSTEM], "base": image_id}) as layer:
            layer.mkdir()
            for path, content in files.items():
                file = layer / path.lstrip("/")
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(content)

    def prepare(self, instance_id: str, image_id: str) -> Disk:
        """Return the disk of an instance. A new instance gets an empty layer on its image."""
        home = self._instances / instance_id
        with self._lock:
            if not (home / "disk.json").exists():
                home.mkdir(parents=True, exist_ok=True)
                (home / "upper").mkdir(exist_ok=True)
                _write_json(home / "disk.json", self._clone_of(image_id))
        record = json.loads((home / "disk.json").read_text())
        _forget_mount(home)
        for name in ("work", "root", "tmp"):
            (home / name).mkdir()
        (home / "tmp").chmod(0o1777)
        return Disk(tuple(f"images/{layer}/layer" for layer in record["layers"]), record["base"])

    def release(self, instance_id: str) -> None:
        """Remove files that only a mounted disk needs. Call this once the host is down."""
        _forget_mount(self._instances / instance_id)

    def capture(self, instance_id: str, image_id: str) -> None:
        """Copy the changes of a host into a new image. The image appears complete or not at all."""
        home = self._instances / instance_id
        if not (home / "disk.json").exists():
            raise DiskError(f"{instance_id} has no disk")
        disk = json.loads((home / "disk.json").read_text())
        with self._new_image(image_id, {"below": disk["layers"], "base": disk["base"]}) as layer:
            _copy_tree(home / "upper", layer)

    def delete(self, instance_id: str) -> None:
        """Delete a disk. Its files are removed in the background, because this takes a while for many hosts."""
        with self._lock:
            doomed = [_set_aside(self._instances / instance_id), *self._sweep()]
        _remove(doomed)

    def delete_image(self, image_id: str) -> None:
        """Delete an image. Its layer stays while a host or another image uses it, as with EBS snapshots."""
        with self._lock:
            record = self._image(image_id)
            if record is not None:
                _write_json(self._images / image_id / "image.json", {**record, "deleted": True})
            doomed = self._sweep()
        _remove(doomed)

    def _image(self, image_id: str) -> dict[str, Any] | None:
        path = self._images / image_id / "image.json"
        return dict(json.loads(path.read_text())) if path.exists() else None

    def _clone_of(self, image_id: str) -> dict[str, Any]:
        record = self._image(image_id)
        if record is None:
            return {"layers": [SYSTEM], "base": image_id}
        return {"layers": [image_id, *record["below"]], "base": record["base"]}

    def _sweep(self) -> list[Path]:
        """Set unused image layers aside and return their new paths."""
        kept = {SYSTEM}
        for disk in self._instances.glob("[!.]*/disk.json"):
            kept.update(json.loads(disk.read_text())["layers"])
        images = {
            path.parent.name: json.loads(path.read_text()) for path in self._images.glob("[!.]*/image.json")
        }
        for name, record in images.items():
            if not record["deleted"]:
                kept.update([name, *record["below"]])
        return [_set_aside(self._images / name) for name in images.keys() - kept]

    @contextmanager
    def _new_image(self, image_id: str, record: dict[str, Any]) -> Iterator[Path]:
        """Yield the folder for a new layer. The image appears complete at the end, or not at all."""
        image, unfinished = self._images / image_id, self._images / f".{image_id}"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        try:
            yield unfinished / "layer"
        except (DiskError, OSError):
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
        _write_json(unfinished / "image.json", {**record, "deleted": False})
        shutil.rmtree(image, ignore_errors=True)
        unfinished.rename(image)


FOLDERS = (
    "dev", "etc/apt/apt.conf.d", "etc/apt/preferences.d", "etc/apt/sources.list.d", "etc/profile.d",
    "etc/systemd/system", "etc/uv", "home", "mnt", "opt/wheels", "proc", "root", "run", "srv", "sys", "tmp",
    "usr/local/bin", "usr/local/lib", "var/cache", "var/lib/dpkg/info", "var/lib/dpkg/updates", "var/log", "var/tmp",
)  # fmt: skip

PROFILE = r"""# as on Ubuntu
if [ "${PS1-}" ] && [ "${BASH-}" ] && [ "$BASH" != "/bin/sh" ]; then
    PS1='\u@\h:\w\$ '
fi
for each in /etc/profile.d/*.sh; do
    if [ -r "$each" ]; then . "$each"; fi
done
unset each
"""
FILES = {
    "etc/profile": PROFILE,
    "etc/passwd": "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    # If the local cloud's user is root, a machine account with the same number could signal and read
    # processes of a host. Distributions, systemd and containers leave this range free.
    "etc/login.defs": "USERGROUPS_ENAB yes\n"
    + "".join(
        f"SYS_{kind}_MIN 70000\nSYS_{kind}_MAX 79999\n{kind}_MIN 80000\n{kind}_MAX 89999\n"
        for kind in ("UID", "GID")
    ),
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "etc/resolv.conf": "",
    # hosts have no internet access: packages come from the image's wheels
    "etc/pip.conf": "[global]\nno-index = true\nfind-links = /opt/wheels\ndisable-pip-version-check = true\n",
    # apt-get has no package lists
    "etc/apt/sources.list": "",
    "var/lib/dpkg/status": "",
    "etc/uv/uv.toml": 'no-index = true\nfind-links = ["/opt/wheels"]\n',
}


def _write_skeleton(layer: Path) -> None:
    """Write the bare system of every image. The machine's programs are added at boot (boot.py)."""
    for folder in FOLDERS:
        (layer / folder).mkdir(parents=True, exist_ok=True)
    (layer / "var/tmp").chmod(0o1777)
    (layer / "root").chmod(0o700)
    for name, text in FILES.items():
        (layer / name).write_text(text)
    (layer / "etc/os-release").symlink_to("../usr/lib/os-release")
    (layer / "var/run").symlink_to("/run")


def _forget_mount(home: Path) -> None:
    """Make the work folder of overlayfs deletable. Its owner cannot read it by default."""
    work = home / "work" / "work"
    if work.exists():
        work.chmod(0o700)
    for name in ("work", "root", "tmp"):
        if (home / name).exists():
            shutil.rmtree(home / name)


def _set_aside(folder: Path) -> Path:
    """Rename a folder to a hidden name at once. The next start of the local cloud removes leftovers."""
    aside = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    if folder.exists():
        folder.rename(aside)
    return aside


def _remove(folders: list[Path]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _copy_tree(source: Path, target: Path) -> None:
    """Copy a tree with hard links, whiteout devices and overlay attributes, which shutil does not support."""
    command = ["cp", "--archive", "--reflink=auto", str(source), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    if done.returncode != 0:
        raise DiskError(f"copying the disk failed: {done.stderr.strip()[:500]}")


def _write_json(path: Path, value: object) -> None:
    unfinished = path.with_name(path.name + ".new")
    unfinished.write_text(json.dumps(value))
    unfinished.replace(path)
