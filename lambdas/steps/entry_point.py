"""What makes a Lambda handler of a function with types: parse, name the run in the log, call, answer in JSON."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from lambdas import environment
from lambdas.steps.observability import is_about, logger, measure
from trainyard import command_line
from trainyard.core.model import errors
from trainyard.core.model.errors import Misconfigured
from trainyard.core.model.yard.metrics import Metric
from trainyard.values import serialization

Given = TypeVar("Given")


def entry_point(function: Callable[..., object]) -> Callable[[Mapping[str, Any], Any], dict[str, Any]]:
    """The event is read as the class of the function's one argument, if it takes one. Raises Misconfigured where it
    does not fit, and whatever the function raises: the log then has the run's name beside it, and of what is the yard's
    own fault CloudWatch is told. What a workflow waits for, or a user has caused, is raised without a traceback."""
    models = [argument.annotation for argument in inspect.signature(function).parameters.values()]
    name = function.__module__.removeprefix("lambdas.workflows.")

    @logger.inject_lambda_context(clear_state=True)
    @functools.wraps(function)
    def handler(event: Mapping[str, Any], _context: Any) -> dict[str, Any]:
        try:
            given = [parse(model, event, of=name) for model in models]
            for each in given:
                if hasattr(each, "run"):
                    is_about(each.run, getattr(each, "attempt", None))
            with command_line.repeat_options(command_line.yard_options(environment.name_of_yard())):
                answer: dict[str, Any] = serialization.to_json(function(*given))
        except Exception as error:
            if errors.is_the_yards(error):
                logger.exception("%s failed", name)
                measure(Metric.FUNCTION_FAILURES, error=type(error).__name__)
                raise
            logger.info("%s ends with %s: %s", name, type(error).__name__, error)
            raise error.with_traceback(None) from None  # the runtime logs the traceback of what is raised
        return answer

    return handler


def parse(model: type[Given], data: object, *, of: str) -> Given:
    """What another part hands over. Raises Misconfigured where it does not fit: it names `of`, to whom it was given,
    each key that is wrong, what was found there and what is expected."""
    if wrong := serialization.faults(model, data):
        raise Misconfigured(
            f"{of} was given what it does not take ({'; '.join(wrong)}). Whoever calls it is of another version, or "
            "called it by hand: deploy the stacks again."
        )
    return serialization.from_json(model, cast(Mapping[str, Any], data))
