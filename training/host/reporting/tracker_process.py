"""Send a run's points to one tracker through the tracker's own client, in a process of its own.

`python tracker_process.py TRACKER PACKAGES FOLDER` reads the lines of FOLDER/feed.jsonl as the agent appends them,
until the line that ends the attempt. It keeps each line until the tracker has taken it, and prints why it waits.
"""

import json
import logging
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

LOOK_SECONDS, PAUSE_SECONDS = 1.0, 15.0
AGENT = os.getppid()
MOST_POINTS = 1000
"""The most points in one request."""
LONGEST_PARAM = 6000


class Sender(Protocol):
    errors: tuple[type[Exception], ...]

    def begin(self, told: dict[str, Any]) -> None: ...
    def send(self, points: list[dict[str, Any]]) -> None: ...
    def end(self, status: str | None, artifacts: dict[str, str]) -> None: ...


class MLflow:
    """An MLflow server. A later attempt continues the run that has the tag `trainyard.run`."""

    def __init__(self) -> None:
        from mlflow import MlflowClient, MlflowException

        self.errors: tuple[type[Exception], ...] = (MlflowException,)
        self._client = MlflowClient()
        self._run = ""

    def begin(self, told: dict[str, Any]) -> None:
        from mlflow.entities import Param

        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", told["job"])
        found = self._client.get_experiment_by_name(name)
        experiment = found.experiment_id if found else self._client.create_experiment(name)
        mine = f"tags.`trainyard.run` = '{told['run']}'"
        before = self._client.search_runs([experiment], filter_string=mine, max_results=1)
        if before:
            self._run = before[0].info.run_id
            self._client.update_run(self._run, status="RUNNING")
            return
        tags = {"trainyard.run": told["run"], **told["tags"]}
        self._run = self._client.create_run(experiment, tags=tags, run_name=told["run"]).info.run_id
        params = [Param(key, str(value)[:LONGEST_PARAM]) for key, value in told["params"].items()]
        for first in range(0, len(params), 100):
            self._client.log_batch(self._run, params=params[first : first + 100])

    def send(self, points: list[dict[str, Any]]) -> None:
        from mlflow.entities import Metric

        found = [
            Metric(each["metric"].replace("@", "_at_"), float(each["value"]), each["at"], each["step"])
            for each in points
        ]
        self._client.log_batch(self._run, metrics=found)

    def end(self, status: str | None, artifacts: dict[str, str]) -> None:
        for name, folder in artifacts.items():
            self._client.log_artifacts(self._run, folder, name)
        if status:
            self._client.set_terminated(self._run, status)


class WandB:
    """A project of Weights & Biases. The run's ID is the run's ID there, too, so a later attempt continues it."""

    def __init__(self) -> None:
        import wandb

        self.errors: tuple[type[Exception], ...] = (wandb.Error,)
        self._wandb = wandb

    def begin(self, told: dict[str, Any]) -> None:
        wandb = self._wandb
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", told["job"]),
            id=told["run"],
            name=told["run"],
            resume="allow",
            config={**told["params"], **told["tags"]},
            settings=wandb.Settings(console="off", disable_git=True, x_disable_stats=True),
        )
        self._run.define_metric("*", step_metric="trainyard/step")

    def send(self, points: list[dict[str, Any]]) -> None:
        for each in points:
            self._run.log({each["metric"]: float(each["value"]), "trainyard/step": each["step"]})

    def end(self, status: str | None, artifacts: dict[str, str]) -> None:
        for name, folder in artifacts.items():
            artifact = self._wandb.Artifact(f"{self._run.id}-{name}", type=name)
            artifact.add_dir(folder)
            self._run.log_artifact(artifact)
        self._run.finish(exit_code={"FINISHED": 0, None: 255}.get(status, 1))


class OpenTelemetry:
    """A receiver of OpenTelemetry metrics by HTTP. Points keep their own times, so a late one is not a wrong one."""

    def __init__(self) -> None:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from requests import Session

        self.errors: tuple[type[Exception], ...] = ()
        session = Session()
        session.max_redirects = 0  # points and keys go to the address of the setting only
        self._said: deque[str] = deque(maxlen=1)
        logging.getLogger("opentelemetry").addHandler(self._handler())
        self._exporter = OTLPMetricExporter(session=session, max_export_batch_size=MOST_POINTS)

    def begin(self, told: dict[str, Any]) -> None:
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource

        self._resource = Resource.create(told["resource"]).merge(OTELResourceDetector().detect())
        self._began = time.time_ns()

    def send(self, points: list[dict[str, Any]]) -> None:
        from opentelemetry.sdk.metrics import export
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        series: dict[tuple[str, str, bool], list[export.NumberDataPoint]] = {}
        for each in points:
            of = series.setdefault((each["instrument"], each["unit"], each["adds"]), [])
            at = 10**6 * each["at"]
            began = min(self._began, at)
            of.append(export.NumberDataPoint(each["attributes"], began, at, float(each["value"])))
        metrics = []
        for (name, unit, adds), found in series.items():
            data = (
                export.Sum(found, export.AggregationTemporality.CUMULATIVE, is_monotonic=False)
                if adds
                else export.Gauge(found)
            )
            metrics.append(export.Metric(name, "", unit, data))
        scope = export.ScopeMetrics(InstrumentationScope("trainyard"), metrics, "")
        whole = export.MetricsData([export.ResourceMetrics(self._resource, [scope], "")])
        self._said.clear()
        if self._exporter.export(whole) is not export.MetricExportResult.SUCCESS:
            raise OSError(self._said[-1] if self._said else "the receiver did not take them")

    def end(self, status: str | None, artifacts: dict[str, str]) -> None:
        self._exporter.shutdown()

    def _handler(self) -> logging.Handler:
        """Return a handler that keeps the exporter's last warning: its answer is only a failure."""
        said = self._said

        class Keeping(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                said.append(record.getMessage())

        return Keeping(logging.WARNING)


SENDERS: dict[str, type[Sender]] = {"mlflow": MLflow, "wandb": WandB, "otel": OpenTelemetry}
MODULES = {"otel": "opentelemetry.exporter.otlp.proto.http"}
"""The module of a client that is not named like its tracker."""


def follow(feed: Path) -> Iterator[list[dict[str, Any]]]:
    """Yield the new lines of the feed in groups, until one of them ends it."""
    with feed.open() as lines:
        rest = ""
        while True:
            rest += lines.read()
            *whole, rest = rest.split("\n")
            found = [json.loads(line) for line in whole]
            if found:
                yield found
                if "end" in found[-1]:
                    return
            else:
                wait(LOOK_SECONDS)


def install(tracker: str, packages: str, folder: Path) -> None:
    """Install the list of packages with the client below the folder, unless the image has the client."""
    try:
        __import__(MODULES.get(tracker, tracker))
    except ImportError:
        target = str(folder / "packages")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
        words = [*pip, "--require-hashes", "--target", target, "--requirement", packages]
        done = subprocess.run(words, check=False, capture_output=True, text=True)
        if done.returncode:
            raise OSError((done.stderr.strip().splitlines() or ["pip failed"])[-1]) from None
        sys.path.insert(0, target)


def wait(seconds: float) -> None:
    """Wait, and end with the agent: the next agent of the host starts a process of its own."""
    time.sleep(seconds)
    if os.getppid() != AGENT:
        sys.exit("the agent has ended")


def insist(errors: tuple[type[Exception], ...], what: str, act: Any, *given: Any) -> None:
    """Call `act` until it succeeds. The agent ends this process when the host may not wait any longer."""
    passing: tuple[type[Exception], ...] = (OSError, subprocess.SubprocessError, *errors)
    failed = False
    while True:
        try:
            act(*given)
        except passing as error:
            failed = True
            print(f"{what}: {' '.join(str(error).split())[:500]}", flush=True)
            wait(PAUSE_SECONDS)
        else:
            if failed:
                print(flush=True)  # the last line is no failure any more
            return


def main(tracker: str, packages: str, folder: Path) -> None:
    insist((), f"the client of {tracker} cannot be installed", install, tracker, packages, folder)
    sender = SENDERS[tracker]()
    for lines in follow(folder / "feed.jsonl"):
        points = [each for each in lines if "value" in each]
        for each in lines:
            if "run" in each:
                insist(sender.errors, "the run cannot be created", sender.begin, each)
        for first in range(0, len(points), MOST_POINTS):
            insist(sender.errors, "points cannot be sent", sender.send, points[first : first + MOST_POINTS])
        if "end" in lines[-1]:
            insist(
                sender.errors, "the end cannot be sent", sender.end, lines[-1]["end"], lines[-1]["artifacts"]
            )
    print("all points are sent", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
