"""Error names for Retry and Catch."""

from __future__ import annotations

import functools
import re
from typing import Any

from ministack.services import stepfunctions as stock

from localcloud.base.states_language import matches
from localcloud.patches import MINISTACK

BOTO_NAMES = {
    "sfn": "stepfunctions",
    "cloudwatchlogs": "logs",
    "eventbridge": "events",
    "rdsdata": "rds-data",
}
"""Services with a different name in botocore."""


def install() -> None:
    """Use AWS's names for aws-sdk errors, and AWS's rules of matching."""
    names = functools.partial(sdk_error_name, stock._AWS_SDK_ERROR_PREFIX)
    MINISTACK.replace("services.stepfunctions:_prefix_sdk_error", names)
    MINISTACK.replace("services.stepfunctions:_error_matches", matches)


def sdk_error_name(prefixes: dict[str, str], service: str, code: str) -> str:
    """Return `Ssm.InvalidDocumentException` for a modeled code, or `Ec2.Ec2Exception` for any other.

    Step Functions uses the AWS SDK for Java, which has a class only for each modeled error.
    """
    if code.startswith("States."):
        return code
    prefix = prefixes.get(service, service.capitalize())
    bare = code.rsplit("#", 1)[-1].removeprefix(f"{prefix}.")
    if bare in _modelled_errors(service):
        return f"{prefix}.{re.sub(r'(Exception|Error|Fault)$', '', bare)}Exception"
    return f"{prefix}.{prefix}Exception"


@functools.cache
def _modelled_errors(service: str) -> frozenset[str]:
    """Return the error codes in a service's model. EC2's model has none."""
    import botocore.session
    from botocore.exceptions import UnknownServiceError

    try:
        model = botocore.session.get_session().get_service_model(BOTO_NAMES.get(service, service))
    except UnknownServiceError:
        return frozenset()
    names = {str(shape.error_code) for shape in model.error_shapes}
    return frozenset(names | {str(shape.name) for shape in model.error_shapes})


def execution_error(error: str | None, cause: str | None) -> Any:
    """Return the exception for ministack's interpreter."""
    return stock._ExecutionError(error, cause)
