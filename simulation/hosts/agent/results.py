"""The results that a finished run leaves in the bucket: a model and TensorBoard events."""

from __future__ import annotations

from simulation.exports import make_export
from simulation.hosts.work import Work
from training.host.bucket import Bucket
from trainyard.core.model.job import Job
from trainyard.protocol import keys


def write_model(bucket: Bucket, run: str, job: Job, image: str, step: int) -> None:
    """Write the model of this step and its description."""
    files = make_export(float(step), run=run, job=job.name, step=step, image=image)
    for name, content in sorted(files.items()):
        bucket.write(f"{keys.model(run)}{name}", content)


def write_events(bucket: Bucket, run: str) -> None:
    bucket.write(f"{keys.tensorboard(run)}events.out.tfevents", b"events")


def missing(job: Job, work: Work, *, has_checkpoint: bool) -> tuple[str, ...]:
    """Return the expected results that the program did not leave."""
    lacks = {work.lacks} | (set() if has_checkpoint else {"checkpoint"})
    return tuple(name for name in job.program.expect if name in lacks)
