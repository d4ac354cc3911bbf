"""An uploaded job file becomes one run, an uploaded recipe one bake: the same object version twice is one execution."""

from lambdas import settings
from lambdas.aws import s3, states
from lambdas.core.edges.events import Submitted, Upload
from lambdas.core.images import recipe
from lambdas.core.jobfile import check, document
from lambdas.core.model import tokens
from lambdas.core.model.errors import AccessDenied
from lambdas.steps.entry_point import entry_point
from lambdas.steps.observability import logger


@entry_point
def handler(upload: Upload) -> Submitted:
    """Also what cannot be read is started: Admit refuses it, so that the user finds an execution that says why."""
    yard = settings.read(settings.SubmitSettings)
    uploaded = upload.detail.object
    key, version, etag = uploaded.key, uploaded.version_id, uploaded.etag
    if key == recipe.REPORT:
        return Submitted(run=None, started=False)
    bakes = key.startswith("images/")
    denied = None
    try:
        found = s3.get_start(yard.bucket_name, key, most=document.MOST_BYTES, version=version)
    except AccessDenied as error:
        logger.error("the run is started all the same, to fail with this reason: %s", error.reason)
        found, denied = None, error.reason
    name = check.name_of(found.start if found else b"", key=key)
    run = tokens.run_id(name, key=key, version=version or etag)
    machine = yard.bake_state_machine_arn if bakes else yard.train_state_machine_arn
    where = "recipe_key" if bakes else "job_key"
    execution_input = {where: key, "version_id": version, "etag": etag, "denied": denied}
    given = {name: value for name, value in execution_input.items() if value}
    started = states.start(machine, run, given)
    logger.info("%s %s", run, "started" if started else "was started before", extra={"key": key})
    return Submitted(run=run, started=started)
