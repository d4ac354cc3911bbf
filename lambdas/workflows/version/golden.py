"""Golden of version: let the function predict answer the golden rows, and compare its answers with TensorFlow's."""

import json

from lambdas import environment
from lambdas.aws import messages
from lambdas.environment import YardSettings
from lambdas.needs import Needs, may
from lambdas.steps.entry_point import entry_point
from lambdas.steps.inputs import Answer
from trainyard.protocol.predictions import GoldenCheck, function_of, golden_event
from trainyard.values import serialization
from trainyard.values.lazy import dataclass

NEEDS = Needs(YardSettings, (may("invoke functions", "predict"),), minutes=5)


@dataclass(frozen=True, kw_only=True)
class GoldenInput:
    model: str
    number: int
    changed: tuple[str, ...] = ()
    """Files that differ from the digests in trainyard.json."""


class Agrees(Answer):
    kind = "agrees"


class Differs(Answer):
    kind = "differs"


class Unchecked(Answer):
    """LiteRT cannot run the version. The first host that serves it checks it."""

    kind = "unchecked"


@entry_point
def handler(given: GoldenInput) -> Agrees | Differs | Unchecked:
    yard, named = environment.read(YardSettings), f"version {given.number} of {given.model}"
    event = golden_event(given.model, given.number)
    answer = messages.call(function_of(yard.yard), json.dumps(event).encode())
    checked = serialization.read(GoldenCheck, answer)
    if checked.difference:
        return Differs(
            reason=f"{named} differs from TensorFlow's answers at its export: {checked.difference}"
        )
    if given.changed:
        return Differs(
            reason=f"files of {named} were changed after the export: {', '.join(given.changed[:8])}"
        )
    if checked.unchecked:
        return Unchecked(reason=f"{named} runs only on a host with TensorFlow ({checked.unchecked})")
    return Agrees(reason=f"{named} answers its golden rows as TensorFlow did")
