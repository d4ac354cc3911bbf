"""Models on a yard: the time and the AWS calls of a version and of predictions, from a small run's model."""

from __future__ import annotations

import json
import statistics
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scripts.datasets import DIGITS, MADE
from tests.support.calls import calls, less
from trainyard.client import Run, Yard
from trainyard.client.jobs.submission import begin
from trainyard.client.registry import Model
from trainyard.protocol import keys
from trainyard.protocol.export import GOLDEN, SAVED_MODEL
from trainyard.protocol.serving import ServeHow

NAME = "bench-digits"
PREDICTIONS = 40
SIGNATURE = "classify"
HOST = ServeHow(instance_types=("c7i.large", "m7i.large"), idle_minutes=5)


@dataclass(frozen=True)
class Models:
    warm_milliseconds: float
    """The median of the function's own time for one row."""
    cold_seconds: float
    """The first prediction in a new process, seen by the client."""
    create_seconds: float
    """`versions create` from a run's model."""
    foreign_seconds: float
    """`versions create` from a SavedModel without the files that an export of the yard adds."""
    switch_seconds: float
    """From a move of `default` until an answer comes from its new version."""
    serve_seconds: float
    """From a request for a host until it answers."""
    predict_calls: float
    """AWS calls of the function for each prediction of a loaded version."""
    create_calls: int
    """AWS calls of all functions to make a version."""
    files: int
    """The number of the version's files."""


def measure(yard: Yard) -> Models:
    """Train a small model, and measure a version of it. The model of an earlier measurement is not used."""
    run = _train(yard)
    model = yard.model(f"{NAME}-{time.time_ns() % 10**9}")
    model.create()
    before = calls(yard)
    create_seconds = _time(lambda: model.create_version("v1", run.id))
    create_calls = _count(before, calls(yard), "Version", "Predict")
    model.set_default("v1")
    row = (yard.bucket.json(f"{keys.version(model.name, 1)}{GOLDEN}") or {})["signatures"][SIGNATURE]
    rows = row["inputs"]["image"][:1]
    _renew(yard)
    cold_seconds = _time(lambda: model.predict(rows, signature=SIGNATURE))
    warm, predict_calls = _predict(yard, model, rows)
    foreign_seconds = _time(lambda: model.create_version("v2", _foreign(yard, run)))
    model.set_default("v2")
    switch_seconds = _time(lambda: _wait_for(model, rows, version=2))
    began = time.monotonic()
    host = model.serve(version="v1", how=HOST)
    serve_seconds = time.monotonic() - began
    yard.run(host.run).stop(now=True)
    yard.run(host.run).wait(seconds=300)
    return Models(
        warm_milliseconds=warm,
        cold_seconds=round(cold_seconds, 2),
        create_seconds=round(create_seconds, 1),
        foreign_seconds=round(foreign_seconds, 1),
        switch_seconds=round(switch_seconds, 1),
        serve_seconds=round(serve_seconds, 1),
        predict_calls=predict_calls,
        create_calls=create_calls,
        files=len(yard.bucket.keys(keys.version(model.name, 1))),
    )


def _train(yard: Yard) -> Run:
    yard.bucket.put_folder(DIGITS.made_in(MADE), DIGITS.prefix)
    data = f"s3://{yard.bucket.name}/{DIGITS.prefix}"
    job = {
        "name": NAME,
        "program": {"module": "training.programs.digits", "args": {"epochs": 2}},
        "data": {"train": f"{data}train/", "test": f"{data}test/"},
        "hardware": {"instance_types": [*HOST.instance_types]},
        "limits": {"hours": 1, "dollars": 1},
    }
    upload = begin(yard.bucket, f"jobs/{NAME}.json", json.dumps(job).encode())
    run = yard.run(upload.run).wait_for_start()
    run.result(seconds=600)
    return run


def _time(action: Callable[[], Any]) -> float:
    began = time.monotonic()
    action()
    return time.monotonic() - began


def _renew(yard: Yard) -> None:
    """Let the next prediction start a new process of the function."""
    functions, name = yard.session.client("lambda"), f"{yard.name.lower()}-predict"
    variables = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
    changed = {"Variables": variables | {"RENEWED": str(time.time_ns())}}
    functions.update_function_configuration(FunctionName=name, Environment=changed)


def _predict(yard: Yard, model: Model, rows: list[Any]) -> tuple[float, float]:
    """Return the median of the function's own milliseconds, and the AWS calls for each prediction."""
    from trainyard.client import predictions

    document = {"instances": rows, "signature_name": SIGNATURE}
    before, milliseconds = calls(yard), []
    for _ in range(PREDICTIONS):
        explained = predictions.send(yard, model.name, document, explain=True).explained or {}
        milliseconds.append(explained["milliseconds"])
    made = _count(before, calls(yard), "Predict")
    return round(statistics.median(milliseconds), 2), round(made / PREDICTIONS, 2)


def _count(before: dict[str, dict[str, int]], after: dict[str, dict[str, int]], *roles: str) -> int:
    """Return the calls of these functions, without those for their own log."""
    total: Counter[str] = Counter()
    for caller, counts in less(after, before).items():
        if any(role in caller for role in roles):
            total.update(
                {action: times for action, times in counts.items() if not action.startswith("logs:")}
            )
    return total.total()


def _foreign(yard: Yard, run: Run) -> str:
    """Copy the SavedModel of the run without the files that its export added, and return its address."""
    prefix = f"{keys.DATA}exports/{NAME}/"
    own = keys.model(run.id)
    for key in yard.bucket.keys(own):
        path = key.removeprefix(own)
        if path in (SAVED_MODEL, "fingerprint.pb") or path.startswith("variables/"):
            yard.bucket.put(f"{prefix}{path}", yard.bucket.read(key) or b"")
    return f"s3://{yard.bucket.name}/{prefix}"


def _wait_for(model: Model, rows: list[Any], *, version: int) -> None:
    while model.predict(rows, signature=SIGNATURE).version != version:
        time.sleep(0.2)
