"""The rules of the section `predict`, which stands instead of a program and its data."""

from collections.abc import Mapping
from dataclasses import replace

from trainyard.core.jobfile.rules import Written
from trainyard.core.model.batch import MODULE, PROGRAM, ROWS, Predict
from trainyard.core.model.job import Job
from trainyard.core.model.program import Data, Program, Scalar, Sharding
from trainyard.values.validation import Fault


def with_program(job: object) -> object:
    """Return the document of a batch with the yard's program. Other documents stay unchanged."""
    if isinstance(job, Mapping) and job.get("predict") is not None and job.get("program") is None:
        return {**job, "program": PROGRAM}
    return job


def settle(job: Job, written: Written) -> Job:
    """Return the job of a batch with its program and its files. Other jobs stay unchanged."""
    batch = job.predict
    if batch is None:
        return job
    if written.document.get("program") != PROGRAM:
        written.fault(
            "program", "is not allowed with predict: the yard has the program of a batch; remove one"
        )
    if written.document.get("data"):
        written.fault("data", "is not allowed with predict, whose source is the data; remove one")
    if job.study:
        written.fault("study", "is not allowed with predict: a batch has no parameters to search; remove one")
    if job.after.model:
        written.fault("after.model", "is not allowed with predict: a batch leaves no model; remove one")
    if job.cluster.is_elastic:
        written.fault("cluster.workers", "found min and max; a batch has one number of workers")
    is_shared = job.cluster.most_workers > 1 and not job.cluster.is_elastic
    sharding = Sharding.FILE if is_shared else Sharding.NONE
    return replace(
        job,
        program=Program(module=MODULE, args=_arguments(batch)),
        data={ROWS: Data(source=batch.source, sharding=sharding)},
        outputs=replace(job.outputs, keep=False),
    )


def _arguments(batch: Predict) -> dict[str, Scalar]:
    return {"format": batch.format.value, **({"signature": batch.signature} if batch.signature else {})}


def as_written(fault: Fault, job: Job) -> Fault:
    """Return a fault of the files of a batch with the key that the user wrote."""
    is_of_batch = job.predict is not None and fault.path.startswith(f"data.{ROWS}")
    return replace(fault, path="predict.source") if is_of_batch else fault
