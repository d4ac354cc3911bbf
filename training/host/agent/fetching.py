"""Fetch all that a program needs before it can start: its image, its source and packages, its data."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from training.host.agent.container import Images
from training.host.bucket import Bucket
from training.host.pool import retained
from training.host.program import container_packages
from training.host.program.fetch import fetch_all
from trainyard.core.model.job import Job

Value = TypeVar("Value")


class Get(Protocol):
    """Returns the result of `act`, and retries it while a service cannot be reached. `what` is for the log."""

    def __call__(self, what: str, act: Callable[[], Value]) -> Value: ...


def fetch_files(get: Get, images: Images, bucket: Bucket, job: Job) -> None:
    """Fetch all files, and note those that a warm host may retain. No program of the run has started yet."""
    paths, account = images.paths, images.account
    retained.give(job, paths, account)
    inside = get("pulling its image", lambda: images.provide(job)) if job.program.container else None

    def fetch() -> str | None:
        with account.act():
            return fetch_all(bucket, job, paths)

    packages = get("fetching program, packages and data", fetch)
    requirements = job.program.requirements
    if inside and requirements:
        packages = get(
            "installing its packages",
            lambda: container_packages.install(requirements, inside, paths, account),
        )
    if job.pool.keep:
        retained.note(job, packages, paths)
        images.note(inside)
