"""The Lambda handler around a typed function: parse the event, log the run, call the function, return JSON."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from lambdas import environment
from lambdas.steps.observability import logger, measure, set_log_context
from trainyard import command_line
from trainyard.core.model import errors
from trainyard.core.model.errors import Misconfigured
from trainyard.core.model.yard.metrics import Metric
from trainyard.values import serialization

Given = TypeVar("Given")


def entry_point(function: Callable[..., object]) -> Callable[[Mapping[str, Any], Any], dict[str, Any]]:
    """Turn a typed function into a Lambda handler.

    The event is parsed as the class of the function's argument, if it has one. Raises Misconfigured if the event does
    not fit, and all errors of the function. Faults of the yard are logged with the run and counted in CloudWatch.
    Errors that a workflow waits for or a user caused are raised without a traceback."""
    models = [argument.annotation for argument in inspect.signature(function).parameters.values()]
    name = function.__module__.removeprefix("lambdas.workflows.")

    @logger.inject_lambda_context(clear_state=True)
    @functools.wraps(function)
    def handler(event: Mapping[str, Any], _context: Any) -> dict[str, Any]:
        try:
            given = [parse(model, event, of=name) for model in models]
            for each in given:
                if hasattr(each, "run"):
                    set_log_context(each.run, getattr(each, "attempt", None))
            with command_line.repeat_options(command_line.yard_options(environment.name_of_yard())):
                answer: dict[str, Any] = serialization.to_json(function(*given))
        except Exception as error:
            if errors.is_the_yards(error):
                logger.exception("%s failed", name)
                measure(Metric.FUNCTION_FAILURES, error=type(error).__name__)
                raise
            logger.info("%s ends with %s: %s", name, type(error).__name__, error)
            raise error.with_traceback(None) from None  # the runtime logs the traceback of a raised error
        return answer

    return handler


def parse(model: type[Given], data: object, *, of: str) -> Given:
    """Parse the input from another part. Raises Misconfigured if it does not fit; the error names the receiver `of`,
    each wrong key, its value and the expected value."""
    if wrong := serialization.faults(model, data):
        raise Misconfigured(
            f"{of} received an input that does not fit ({'; '.join(wrong)}). Its caller has another version, or a user "
            "called it by hand. Deploy the stacks again."
        )
    return serialization.from_json(model, cast(Mapping[str, Any], data))
