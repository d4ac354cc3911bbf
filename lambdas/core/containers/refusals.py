"""The sentences for a job whose container image cannot be used: what is wrong, and what to type."""

from collections.abc import Sequence

from trainyard.command_line import command_line
from trainyard.core.model.names import secret_parameter, store_secret
from trainyard.core.model.yard.registries import Registry, arn_of
from trainyard.protocol.containers import ARCHITECTURES, Container
from trainyard.protocol.image_reference import Reference
from trainyard.values.validation import Fault, nearest, show_value

IMAGE, LOGIN = "program.container", "program.container.login"
MOST_TAGS_SHOWN = 5
READS = "ecr:BatchGetImage, ecr:DescribeImages and ecr:GetDownloadUrlForLayer"


def not_listed(image: Reference, registries: Sequence[Registry], yard: str) -> Fault:
    """Return the fault of an image whose registry is not in the setting `registries`."""
    reads = ", ".join(map(str, registries)) or "none"
    setting = ",".join([*map(str, registries), arn_of(image) or image.registry])
    deploy = command_line("--yard", yard, "yard", "deploy", "-c", f"registries={setting}")
    problem = (
        f"{image.name} is in no registry of this yard's setting registries ({reads}). Ask the administrator of the "
        f"yard to add it: {deploy}"
    )
    return Fault(IMAGE, problem)


def _region_option(image: Reference) -> str:
    """Return the option of the command aws for the region of an image in Amazon ECR; empty for another registry."""
    return f" --region {image.ecr['region']}" if image.ecr else ""


def no_repository(image: Reference) -> Fault:
    """Return the fault of a repository of Amazon ECR that does not exist."""
    problem = (
        f"{image.registry} has no repository {image.repository}. Its repositories: aws ecr describe-repositories"
        f"{_region_option(image)} --query 'repositories[].repositoryName'"
    )
    return Fault(IMAGE, problem)


def not_cached(image: Reference, cached: Reference) -> Fault:
    """Return the fault of an image that the pull-through cache of Amazon ECR does not have."""
    problem = (
        f"Amazon ECR has no {cached}, through which the setting pull_through reads {image}: the image does not exist, "
        f"or its cache rule lacks a login. The rules: aws ecr describe-pull-through-cache-rules"
        f"{_region_option(cached)}"
    )
    return Fault(IMAGE, problem)


def no_version(image: Reference, tags: Sequence[str]) -> Fault:
    """Return the fault of a tag or digest that the repository does not have. `tags` are its tags, the newest first."""
    if image.digest:
        problem = (
            f"{image.name} has no image with the digest {image.digest}, or no longer; name one that it has, or a tag: "
            f"container: {image.name}:TAG"
        )
        return Fault(IMAGE, problem)
    close = nearest(image.tag, tags)
    shown = [*([close] if close else []), *(tag for tag in tags if tag != close)][:MOST_TAGS_SHOWN]
    hint = f"; the nearest of its tags are {', '.join(shown)}" if shown else ""
    first = f"container: {image.name}:{shown[0]}" if shown else f"docker push {image.name}:{image.tag}"
    return Fault(IMAGE, f"{image.name} has no tag {image.tag}{hint}. Write one that it has: {first}")


def denied(image: Reference, why: str) -> Fault:
    """Return the fault of a repository of Amazon ECR that the yard may not read. `why` is AWS's answer."""
    problem = (
        f"AWS does not let the yard read {image.name} ({why}). The setting registries must name {arn_of(image)}; for a "
        f"repository of another account, its policy must allow this account {READS}, too"
    )
    return Fault(IMAGE, problem)


def hidden(image: Reference, yard: str) -> Fault:
    """Return the fault of a repository that a registry shows to no caller without a login."""
    put = store_secret(secret_parameter(yard, "NAME"))
    problem = (
        f"{image.registry} shows {image.repository} to no caller without a login: the repository does not exist, or it "
        f"is private. Check its name; for a private one, store user:password ({put}) and write login: NAME"
    )
    return Fault(IMAGE, problem)


def login_refused(image: Reference, login: str, yard: str) -> Fault:
    """Return the fault of a login that the registry refuses, or that does not give access to the repository."""
    put = store_secret(secret_parameter(yard, login))
    problem = (
        f"{image.registry} does not let the login of the secret {login} read {image.repository}: the login is wrong, "
        f"or it has no access to this repository, or the repository does not exist. Store user:password again: {put}"
    )
    return Fault(LOGIN, problem)


def login_fault(login: str, yard: str, value: str | None) -> Fault | None:
    """Return the fault of a secret that is missing or has another form than a login. `value` is its text."""
    put = store_secret(secret_parameter(yard, login))
    if value is None:
        problem = f"the secret {show_value(login)} does not exist; store the text user:password first: {put}"
        return Fault(LOGIN, problem)
    if ":" not in value.strip(":"):
        problem = f"the secret {show_value(login)} is not user:password; store it again: {put}"
        return Fault(LOGIN, problem)
    return None


def unreadable(image: Reference, why: str) -> Fault:
    return Fault(IMAGE, f"{image} cannot be run: {why}")


def nothing_to_run(container: Container) -> Fault:
    """Return the fault of an image that names no program, for a job that names none either."""
    lacks = "neither ENTRYPOINT nor CMD" if container.entrypoint else "no CMD, and entrypoint is false"
    problem = f"{container.reference} has {lacks}, so there is nothing to run: write program.command"
    return Fault(IMAGE, problem)


def no_architecture(
    image: Reference, has: Sequence[str], needed: Sequence[str], types: Sequence[str]
) -> Fault:
    """Return the fault of an image without an architecture of the job's instance types."""
    wanted = [name for name, ec2 in ARCHITECTURES.items() if ec2 in needed]
    platforms = " or ".join(f"linux/{name}" for name in wanted)
    problem = (
        f"{image} is for {', '.join(has) or 'no known platform'}, and {', '.join(types)} {_have(types)} {platforms}. "
        f"Name other hardware.instance_types, or build the image for it: docker buildx build --platform "
        f"{','.join(f'linux/{name}' for name in wanted)} -t {image.name}:{image.tag or 'TAG'} --push ."
    )
    return Fault(IMAGE, problem)


def not_for_base(image: Reference, has: Sequence[str], architecture: str) -> Fault:
    """Return the fault of an image in a recipe whose base image has other processors."""
    wanted = next((name for name, ec2 in ARCHITECTURES.items() if ec2 == architecture), architecture)
    problem = (
        f"{image} is for {', '.join(has) or 'no known platform'}, and the base image of the recipe is for "
        f"linux/{wanted}. Build it for that, too: docker buildx build --platform linux/{wanted} -t "
        f"{image.name}:{image.tag or 'TAG'} --push ."
    )
    return Fault(IMAGE, problem)


def not_baked(image: Reference) -> Fault:
    """Return the fault of an image in a recipe whose registry did not answer."""
    problem = (
        f"{image.registry} did not answer, or allows no further request now, so the digest of {image} is unknown: bake "
        "again later"
    )
    return Fault(IMAGE, problem)


def hidden_from_bakes(image: Reference) -> Fault:
    """Return the fault of an image in a recipe that its registry shows to no caller without a login."""
    problem = (
        f"{image.registry} shows {image.repository} to no caller without a login: the repository does not exist, or it "
        "is private. A bake uses no login: copy a private image to Amazon ECR, and name it there"
    )
    return Fault(IMAGE, problem)


def _have(types: Sequence[str]) -> str:
    return "has" if len(types) == 1 else "have"


def busy(image: Reference) -> str:
    """Return the warning for a registry that answered 429."""
    return (
        f"{image.registry} allows no further request now (429), so {image} was not checked: its hosts wait as the "
        "registry asks, and the first host decides which image the tag names. Hosts share the addresses of the "
        f"yard; the setting pull_through reads them through Amazon ECR, which has no such limit"
    )


def unreachable(image: Reference, why: str) -> str:
    """Return the warning for a registry that gave no answer."""
    return (
        f"{image.registry} was not reached ({why}), so {image} was not checked: the hosts try it themselves, and a "
        "wrong name is found only there"
    )


def latest(container: Container) -> str:
    """Return the warning for a tag that names another image with each push."""
    return (
        f"{container.reference} names another image after each push; this run uses {container.digest} on all hosts "
        f"and in all attempts. To repeat it later: container: {container.reference.name}@{container.digest}"
    )
