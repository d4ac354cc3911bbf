"""The check of a job's container image before a launch: its registry, its digest, its architectures and its login."""

from collections.abc import Sequence
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
from trainyard.core.model.yard.registries import Registry
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


class _FaultError(Exception):
    """A fault of the image."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


def pin(job: Job, yard: str, registries: Sequence[Registry]) -> Pinned:
    """Read the registry of the job's image, and return the job with the digest for each architecture."""
    container = job.program.container
    if container is None:
        return Pinned(job)
    image = container.reference
    if not any(each.holds(image) for each in registries):
        return Pinned(job, (refusals.not_listed(image, registries, yard),))
    try:
        found = _read(container, image, yard)
        _check_architectures(job, image, found)
    except _FaultError as error:
        return Pinned(job, (error.fault,))
    except AccessDenied as error:
        return Pinned(job, (refusals.denied(image, str(error).partition(". ")[0]),))
    except UnreadableManifestError as error:
        return Pinned(job, (refusals.unreadable(image, str(error)),))
    except RegistryBusyError:
        return Pinned(job, warnings=(refusals.busy(image),))
    except RegistryUnreachableError as error:
        return Pinned(job, warnings=(refusals.unreachable(image, str(error)),))
    warnings = (refusals.latest(found),) if image.tag == LATEST and not image.digest else ()
    return Pinned(replace(job, program=replace(job.program, container=found)), warnings=warnings)


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
    except NoAccessError as error:
        login = container.login
        fault = refusals.login_refused(image, login, yard) if login else refusals.hidden(image, yard)
        raise _FaultError(fault) from error
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


def _check_architectures(job: Job, image: Reference, container: Container) -> None:
    """Refuse an image that none of the job's types can run. Plan excludes the pools of single types."""
    types = types_of(job)
    needed = {instance_type(name).architecture for name in types}
    if not any(container.for_machine(each) for each in needed):
        has = [name if "/" in name else f"linux/{name}" for name in container.manifests]
        raise _FaultError(refusals.no_architecture(image, has, sorted(needed), types))
