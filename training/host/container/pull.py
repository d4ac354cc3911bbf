"""Pull an image into a folder that is named by its digest. The folder appears whole or not at all."""

import json
import logging
import platform
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from training.host.account import remove_tree
from training.host.container import unpack
from training.host.container.configuration import Configuration, Layer, check_architecture, choose, layers_of
from training.host.container.registry import GivenUpError, Registry
from training.host.container.unpack import Contents, TooLargeError, read_contents
from training.host.errors import Unreachable
from trainyard.protocol.containers import Container
from trainyard.values import serialization
from trainyard.values.quantities import format_count

BLOBS_AT_ONCE = 8
PROGRESS_SECONDS = 10.0
ROOT, CONFIGURATION, ARRIVING = "root", "image.json", ".arriving-"
MEGABYTE, GIGABYTE = 1e6, 1e9

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image on this host's disk."""

    digest: str
    root: Path
    configuration: Configuration


@dataclass(kw_only=True)
class Progress:
    """The bytes of a pull. Threads may share it."""

    total: int
    tell: Callable[[str], None]
    """Gets a line every ten seconds."""
    here: int = 0
    _began: float = field(default_factory=time.monotonic, init=False)
    _told: tuple[float, int] = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        self._told = (self._began, 0)

    def arrived(self, count: int) -> None:
        line = None
        with self._lock:
            self.here += count
            now = time.monotonic()
            since, before = self._told
            if now - since >= PROGRESS_SECONDS:
                line = describe(self.here, self.total, max(self.here - before, 0) / (now - since))
                self._told = (now, self.here)
        if line:
            self.tell(line)

    @property
    def seconds(self) -> float:
        return max(time.monotonic() - self._began, 1e-3)


def describe(here: int, total: int, rate: float) -> str:
    """Describe a pull: bytes, rate in bytes per second, and what remains."""
    left = f", {max(total - here, 0) / rate:.0f} s left" if rate and here < total else ""
    return f"{_size(here)} of {_size(total)} have arrived, {rate / MEGABYTE:.0f} MB/s{left}"


def _size(count: int) -> str:
    return f"{count / GIGABYTE:.1f} GB" if count >= GIGABYTE else f"{count / MEGABYTE:.1f} MB"


def folder_of(folder: Path, digest: str) -> Path:
    """Return the folder of an image below the folder of all images."""
    return folder / digest.removeprefix("sha256:")


def version_for(container: Container) -> str:
    """Return the digest to pull, or the tag if Admit could not reach the registry."""
    return digest_for(container) or container.digest or container.reference.version


def digest_for(container: Container) -> str:
    """Return the digest of the manifest for this machine that Admit has pinned; empty without one."""
    machine = "arm64" if platform.machine() == "aarch64" else platform.machine()
    found = container.for_machine(machine)
    return found.digest if found else ""


def recall(folder: Path, digest: str) -> Image | None:
    """Return an image that is whole on this disk, or None."""
    path = folder_of(folder, digest)
    try:
        configuration = serialization.read(Configuration, json.loads((path / CONFIGURATION).read_text()))
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Image(digest=digest, root=path / ROOT, configuration=configuration)


def pull(registry: Registry, version: str, folder: Path, *, tell: Callable[[str], None]) -> Image:
    """Return the image, from this disk if it is there. `version` is a digest or a tag. Call this as the account.

    Raises the errors of Registry (Unreachable if this host has to leave), ProgramFault for an image that this host
    cannot run, and a final HostTrouble if the disk is too small."""
    try:
        return _pull(registry, version, folder, tell)
    except GivenUpError as error:
        raise Unreachable("the pull was given up, because this host has to leave") from error


def _pull(registry: Registry, version: str, folder: Path, tell: Callable[[str], None]) -> Image:
    if version.startswith("sha256:") and (found := recall(folder, version)):
        tell("the image is on this host already: nothing is pulled")
        return found
    manifest, digest = registry.manifest(version)
    if chosen := choose(manifest, registry.name):
        if found := recall(folder, chosen):
            tell("the image is on this host already: nothing is pulled")
            return found
        manifest, digest = registry.manifest(chosen)
    layers = layers_of(manifest, registry.name)
    image = folder_of(folder, digest)
    arriving = image.with_name(f"{ARRIVING}{image.name}")
    _clear(folder)
    (arriving / ROOT).mkdir(parents=True)
    file = arriving / CONFIGURATION
    registry.fetch_blob(str(manifest["config"]["digest"]), file, arrived=lambda _: None)
    described = json.loads(file.read_bytes())
    check_architecture(described, registry.name)
    seconds, size = _bring(registry, layers, arriving, tell)
    file.write_text(json.dumps(asdict(Configuration.of(described))))
    if image.exists():
        remove_tree(image)
    arriving.rename(image)
    tell(
        f"pulled {registry.name}@{digest}: {_size(size)} in {format_count(len(layers), 'layer')}, unpacked in "
        f"{seconds:.1f} s"
    )
    return Image(digest=digest, root=image / ROOT, configuration=Configuration.of(described))


def _clear(folder: Path) -> None:
    """Remove what pulls of killed agents have left."""
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in folder.glob(f"{ARRIVING}*"):
        remove_tree(leftover)


def _bring(
    registry: Registry, layers: Sequence[Layer], arriving: Path, tell: Callable[[str], None]
) -> tuple[float, int]:
    """Fetch all layers, several at once, then unpack them from the lowest to the highest. Return the seconds and the
    bytes that were fetched."""
    size = sum(layer.size for layer in {layer.digest: layer for layer in layers}.values())
    if size + unpack.LEFT_FREE > shutil.disk_usage(arriving).free:
        raise unpack.no_room(arriving, size)
    progress = Progress(total=size, tell=tell)
    blobs = {layer.digest: arriving / f"layer-{number}" for number, layer in enumerate(layers)}

    def fetch(layer: Layer) -> Contents:
        blob = blobs[layer.digest]
        registry.fetch_blob(layer.digest, blob, arrived=progress.arrived)
        try:
            return read_contents(layer, blob, room=shutil.disk_usage(arriving).free - unpack.LEFT_FREE)
        except TooLargeError as error:
            raise unpack.no_room(arriving, shutil.disk_usage(arriving).free + blob.stat().st_size) from error

    with _stopping(registry) as pool:
        fetched: dict[str, Future[Contents]] = {}
        for layer in layers:
            if layer.digest not in fetched:
                fetched[layer.digest] = pool.submit(fetch, layer)
        for each in as_completed(fetched.values()):
            each.result()
        needed = sum(fetched[layer.digest].result().bytes for layer in layers)
        if needed + unpack.LEFT_FREE > shutil.disk_usage(arriving).free:
            raise unpack.no_room(arriving, needed)
        for number, layer in enumerate(layers):
            unpack.unpack(layer, blobs[layer.digest], fetched[layer.digest].result(), arriving / ROOT)
            if all(later.digest != layer.digest for later in layers[number + 1 :]):
                blobs[layer.digest].unlink()
    for skipped in arriving.glob("layer-*"):
        skipped.unlink()
    return progress.seconds, size


@contextmanager
def _stopping(registry: Registry) -> Iterator[ThreadPoolExecutor]:
    """Yield threads that end soon after the first failure."""
    has_failed = threading.Event()
    stopped = registry.stopped
    registry.stopped = lambda: has_failed.is_set() or stopped()
    try:
        with ThreadPoolExecutor(BLOBS_AT_ONCE, thread_name_prefix="layer") as pool:
            try:
                yield pool
            except BaseException:
                has_failed.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    finally:
        registry.stopped = stopped
