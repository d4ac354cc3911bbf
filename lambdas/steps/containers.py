"""The check of a job's container image before a launch: its registry, its digest, its architectures and its login."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from lambdas.aws import ssm
from lambdas.aws.ecr import EcrImages, RepositoryMissingError
from lambdas.aws.registry import NoAccessError, RegistryBusyError, RegistryImages, RegistryUnreachableError
from lambdas.core.capacity.exclusion import types_of
from lambdas.core.containers import manifests, refusals
from lambdas.core.containers.manifests import Index, UnreadableManifestError
from trainyard.core.model.errors import AccessDenied
from trainyard.core.model.instance_types import instance_type
from trainyard.core.model.job import Job
from trainyard.core.model.names import secret_parameter
from trainyard.core.model.yard.registries import PullThrough, Registry
from trainyard.protocol.containers import ARCHITECTURES, Container, Manifest
from trainyard.protocol.image_reference import LATEST, Reference
from trainyard.values.lazy import dataclass
from trainyard.values.validation import Fault

Images = EcrImages | RegistryImages


@dataclass(frozen=True)
class Pinned:
    """The job with the digests of its image, or the faults that prevent it."""

    job: Job
    faults: tuple[Fault, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Resolved:
    """A container image with its digests, or why it has none."""

    container: Container
    fault: Fault | None = None
    warning: str | None = None

    @property
    def is_read(self) -> bool:
        """Return True if the registry was read."""
        return bool(self.container.digest)


class _FaultError(Exception):
    """A fault of the image."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


@dataclass(frozen=True)
class Sources:
    """The registries that a yard reads, by its settings."""

    yard: str
    registries: tuple[Registry, ...]
    pull_through: tuple[PullThrough, ...] = ()

    @classmethod
    def of(cls, yard: str, registries: Iterable[str], pull_through: Iterable[str]) -> "Sources":
        return cls(yard, tuple(map(Registry.of, registries)), tuple(map(PullThrough.of, pull_through)))

    def find(self, container: Container) -> Container | None:
        """Return the container image with the name under which the yard pulls it; None if no setting allows it."""
        image = container.reference
        cached = next((found for rule in self.pull_through if (found := rule.rewrite(image))), None)
        if cached:
            return replace(container, image=cached, login="")
        is_listed = any(each.holds(image) for each in self.registries)
        is_listed = is_listed or any(each.holds(image) for each in self.pull_through)
        return container if is_listed else None


def pin(job: Job, sources: Sources) -> Pinned:
    """Read the registry of the job's image, and return the job with the digest for each architecture."""
    container = job.program.container
    if container is None:
        return Pinned(job)
    found = resolve(container, sources)
    warnings = (found.warning,) if found.warning else ()
    fault = found.fault or (_fault_of(job, found.container) if found.is_read else None)
    if fault:
        return Pinned(job, (fault,))
    return Pinned(replace(job, program=replace(job.program, container=found.container)), warnings=warnings)


def resolve(container: Container, sources: Sources, *, for_bake: bool = False) -> Resolved:
    """Read the registry of an image, and return the image with the digest for each architecture."""
    named, yard = container.reference, sources.yard
    pulled = sources.find(container)
    if pulled is None:
        return Resolved(container, refusals.not_listed(named, sources.registries, yard))
    container, image = pulled, pulled.reference
    try:
        found = _read(container, image, yard)
    except _FaultError as error:
        is_cached = image.name != named.name
        return Resolved(container, refusals.not_cached(named, image) if is_cached else error.fault)
    except NoAccessError:
        login = container.login
        hidden = refusals.hidden_from_bakes(image) if for_bake else refusals.hidden(image, yard)
        return Resolved(container, refusals.login_refused(image, login, yard) if login else hidden)
    except AccessDenied as error:
        return Resolved(container, refusals.denied(image, str(error).partition(". ")[0]))
    except UnreadableManifestError as error:
        return Resolved(container, refusals.unreadable(image, str(error)))
    except RegistryBusyError:
        return Resolved(container, warning=refusals.busy(image))
    except RegistryUnreachableError as error:
        return Resolved(container, warning=refusals.unreachable(image, str(error)))
    moves = image.tag == LATEST and not image.digest
    return Resolved(found, warning=refusals.latest(found) if moves else None)


def resolve_for_bake(
    images: Sequence[str], sources: Sources, architecture: str
) -> tuple[Container, ...] | Fault:
    """Return the container images of a recipe with their digests, or the fault of the first one that hosts of this
    architecture cannot have. A bake reads registries other than Amazon ECR without a login."""
    containers = []
    for index, image in enumerate(images):
        found = resolve(Container(image=image), sources, for_bake=True)
        reference = found.container.reference
        fault = found.fault
        if fault is None and not found.is_read:
            fault = refusals.not_baked(reference)
        if fault is None and found.container.for_machine(architecture) is None:
            has = [f"linux/{name}" for name in found.container.manifests]
            fault = refusals.not_for_base(reference, has, architecture)
        if fault is not None:
            return replace(fault, path=f"containers[{index}]")
        containers.append(found.container)
    return tuple(containers)


def _read(container: Container, image: Reference, yard: str) -> Container:
    images = _open(container, image, yard)
    try:
        content, digest = _manifest(images, image, image.version)
        found = manifests.read(content)
        if isinstance(found, Index):
            if not found.digests:
                raise _FaultError(refusals.no_architecture(image, found.others, *_ANY))
            each = dict(_pin(images, image, digest) for digest in found.digests.values())
        else:
            each = dict([manifests.pin(digest, found, images.blob(found.config))])
    except RepositoryMissingError as error:
        raise _FaultError(refusals.no_repository(image)) from error
    return replace(container, digest=digest, manifests=each)


def _open(container: Container, image: Reference, yard: str) -> Images:
    if image.ecr:
        return EcrImages(image)
    if not container.login:
        return RegistryImages(image)
    value = ssm.read_secret(secret_parameter(yard, container.login))
    if fault := refusals.login_fault(container.login, yard, value):
        raise _FaultError(fault)
    return RegistryImages(image, value or "")


def _manifest(images: Images, image: Reference, version: str) -> tuple[bytes, str]:
    found = images.manifest(version, manifests.ACCEPTED)
    if found is None:
        tags = images.tags() if isinstance(images, EcrImages) and not image.digest else []
        raise _FaultError(refusals.no_version(image, tags))
    return found


def _pin(images: Images, image: Reference, digest: str) -> tuple[str, Manifest]:
    """Return the architecture and the manifest that an index names."""
    found = manifests.read(_manifest(images, image, digest)[0])
    if isinstance(found, Index):
        raise UnreadableManifestError("its list of architectures names another list; push the image again")
    return manifests.pin(digest, found, images.blob(found.config))


_ANY = ((*ARCHITECTURES.values(),), ("hosts",))


def _fault_of(job: Job, container: Container) -> Fault | None:
    """Return the fault of an image that none of the job's types can run, or that has nothing to run. Plan excludes the
    pools of single types."""
    types = types_of(job)
    needed = {instance_type(name).architecture for name in types}
    usable = [found for each in needed if (found := container.for_machine(each))]
    if usable:
        program = job.program
        is_named = bool(program.command or program.module) or program.shell is not None
        runs = all(each.has_cmd or (each.has_entrypoint and container.entrypoint) for each in usable)
        return None if is_named or runs else refusals.nothing_to_run(container)
    has = [name if "/" in name else f"linux/{name}" for name in container.manifests]
    return refusals.no_architecture(container.reference, has, sorted(needed), types)
