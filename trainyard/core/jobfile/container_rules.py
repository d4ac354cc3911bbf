"""The rules of a job whose program runs in a container."""

from collections.abc import Callable, Mapping

from trainyard.core.model.job import Job


def check(job: Job, image: object, fault: Callable[[str, str], None]) -> None:
    """Refuse what contradicts the container. `image` is `hardware.image` as written."""
    container = job.program.container
    if container is None or not container.image:
        return
    if container.login and container.reference.ecr:
        problem = (
            "is for other registries; hosts read Amazon ECR with the run's own role: remove login, and list the "
            "repository in the setting registries"
        )
        fault("program.container.login", problem)
    if isinstance(image, Mapping):
        problem = (
            "selects a TensorFlow for the hosts, but the program runs with the TensorFlow of its container; remove "
            "hardware.image, or remove program.container"
        )
        fault("hardware.image", problem)
