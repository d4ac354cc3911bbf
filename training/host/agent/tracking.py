"""The trackers of a run: a process for each on the chief, which gets every point and the end of the attempt. The
process for OpenTelemetry runs on every host, which sends its own use.

A tracker never ends a run: whatever it does not take stays in the bucket, and the log says so.
"""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from training.host.account import remove_tree
from training.host.agent.context import Context
from training.host.disk import fresh, readable_files
from training.host.errors import HostTrouble
from training.host.periodic import Repeat
from training.host.program import secrets as secret_values
from training.host.program.ending import Failed, Finished, Stopped
from training.host.program.secrets import Hider
from training.host.reporting import tracker_process
from training.host.reporting.metric_points import MetricPoints
from training.host.use import instruments
from trainyard.core.model.program import OTLP_ENDPOINT, OTLP_HEADERS, Tracker
from trainyard.protocol.signals import FailureKind, StopReason
from trainyard.protocol.tags import Tag
from trainyard.values import floats

FEED_SECONDS = 2.0
END_SECONDS, ARTIFACT_SECONDS = 60.0, 600.0
"""How long a host waits at the end for a tracker that takes points, and for one that takes a model."""
EXPORTER = "OTEL_EXPORTER_"
LARGEST_MODEL = 4 * 2**30
NOBODY = 65534
"""The account of the processes. It is not the program's, so the program cannot disturb them."""
PASSED_ON = ("PATH", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
PASSED_ON_FAMILIES = ("PIP_", "LC_", "LANG")


@dataclass(slots=True)
class Process:
    """The process that sends to one tracker, and its files."""

    tracker: Tracker
    folder: Path
    popen: subprocess.Popen[bytes] | None = None

    @property
    def feed(self) -> Path:
        return self.folder / "feed.jsonl"

    @property
    def last_line(self) -> str:
        """Return what the process waits for; empty while all goes well."""
        return (self.folder / "output").read_text(errors="replace").rsplit("\n", 2)[-2:][0]

    def write(self, lines: list[dict[str, Any]]) -> None:
        with self.feed.open("a") as feed:
            feed.writelines(json.dumps(floats.with_texts(line)) + "\n" for line in lines)


@dataclass(slots=True)
class Tracking:
    """All trackers of the job that this host reports to."""

    context: Context
    points: MetricPoints
    note: Callable[[str], None]
    _processes: list[Process] = field(default_factory=list)
    _uses: SimpleQueue[dict[str, Any]] = field(default_factory=SimpleQueue)
    _hide: Callable[[str], str] = str
    _feeding: Repeat | None = None

    def start(self, secrets: Mapping[str, str]) -> None:
        """Start a process for each tracker. They end by themselves, or with the agent."""
        is_chief = self.context.assignment.is_chief
        wanted = [each for each in self.context.job.trackers if is_chief or each.client.is_of_each_host]
        if not wanted:
            return
        given = {**self.context.job.program.environment, **secrets}
        shared = self._fetch_shared(given)
        self._hide = Hider({**secrets, **shared})
        for tracker in wanted:
            own = {name: value for name, value in given.items() if name.startswith(tracker.client.prefix)}
            if tracker is Tracker.OTEL and OTLP_ENDPOINT not in own:
                own = {name: value for name, value in own.items() if not name.startswith(EXPORTER)} | shared
            if tracker is Tracker.OTEL and not own.get(OTLP_ENDPOINT):
                continue
            process = Process(tracker, self._folder / tracker)
            fresh(process.folder)
            process.write([self._describe_run()])
            self._launch(process, own)
            self._processes.append(process)
        self._feeding = Repeat("trackers", lambda _: self._feed(), every=FEED_SECONDS)
        self._feeding.start()

    def add_use(self, at: int, values: Mapping[str, float]) -> None:
        """Add a sample of the use of this host. `at` counts seconds since 1970. Other threads may call this."""
        if any(process.tracker is Tracker.OTEL for process in self._processes):
            for line in instruments.of_use(at, values):
                self._uses.put(line)

    def end(self, ended: Finished | Stopped | Failed, has_to_end: Callable[[], str | None]) -> None:
        """Send the last points, and the end of the run if no attempt may follow. Wait for the trackers for a while."""
        if self._feeding is None:
            return
        self._feeding.finish()
        status, artifacts = _status_of(ended), {}
        takes_models = any(process.tracker is not Tracker.OTEL for process in self._processes)
        if status == "FINISHED" and takes_models and (model := self._stage_model()):
            artifacts = {"model": str(model)}
        for process in self._processes:
            process.write([{"end": status, "artifacts": artifacts}])
        for process in self._processes:
            takes_model = bool(artifacts) and process.tracker is not Tracker.OTEL
            self._wait(process, ARTIFACT_SECONDS if takes_model else END_SECONDS, has_to_end)
        remove_tree(self._folder)

    @property
    def _folder(self) -> Path:
        return self.context.paths.tracking(self.context.cluster.attempt)

    def _feed(self) -> None:
        points = self.points.take_copies() if self.context.assignment.is_chief else []
        uses = []
        while not self._uses.empty():
            uses.append(self._uses.get())
        for process in self._processes:
            if process.tracker is Tracker.OTEL:
                lines = [line for each in points for line in instruments.of_scalar(each)] + uses
            else:
                lines = points
            if lines:
                process.write(lines)

    def _fetch_shared(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of the yard's receiver of OpenTelemetry; none for a job with a receiver of its own. A
        secret that cannot be read costs only the metrics there."""
        telemetry = self.context.job.telemetry
        if telemetry is None or OTLP_ENDPOINT in given:
            return {}
        wanted = {OTLP_HEADERS: telemetry.headers} if telemetry.headers else {}
        try:
            headers = secret_values.fetch(
                wanted, yard=self.context.identity.tags[Tag.YARD], client=self.context.ssm
            )
        except HostTrouble as trouble:
            self.note(f"the metrics of this run do not reach {telemetry.endpoint}: {trouble.reason}")
            return {}
        return {OTLP_ENDPOINT: telemetry.endpoint, **headers}

    def _wait(self, process: Process, most: float, has_to_end: Callable[[], str | None]) -> None:
        """Wait until the process ends. A tracker that does not answer gets less time."""
        assert process.popen is not None
        began = time.monotonic()
        while process.popen.poll() is None and not has_to_end():
            if time.monotonic() - began > (
                process.tracker.client.failing_seconds if process.last_line else most
            ):
                break
            time.sleep(0.2)
        if process.popen.poll() is None:
            process.popen.kill()
        if process.popen.wait():
            why = self._hide(process.last_line) or "it did not answer in time"
            self.note(
                f"{process.tracker.client.called} has not got everything of this run: {why}. "
                "All points are in the bucket (run.metrics())"
            )

    def _launch(self, process: Process, own: Mapping[str, str]) -> None:
        base = {
            name: value
            for name, value in os.environ.items()
            if name in PASSED_ON or name.startswith(PASSED_ON_FAMILIES)
        }
        home = {
            "HOME": str(process.folder),
            "TMPDIR": str(process.folder),
            "MLFLOW_ENABLE_ASYNC_LOGGING": "false",
        }
        person: dict[str, Any] = {}
        if os.geteuid() == 0 and self.context.account.is_another:
            os.chown(process.folder, NOBODY, NOBODY)
            person = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        packages = self.context.paths.agent / f"requirements/locks/{process.tracker}.txt"
        words = [process.tracker, str(packages), str(process.folder)]
        with (process.folder / "output").open("wb") as output:
            process.popen = subprocess.Popen(
                [str(self.context.paths.python), "-P", tracker_process.__file__, *words],
                env={**base, **home, **own},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=process.folder,
                **person,
            )

    def _describe_run(self) -> dict[str, Any]:
        """Return the first line of a feed: the run's parameters, and its lineage as tags."""
        job, cluster = self.context.job, self.context.cluster
        args = job.program.args
        params = dict(args) if isinstance(args, Mapping) else {"args": " ".join(map(str, args))}
        origin = {
            "mlflow.source.name": job.program.called,
            "mlflow.source.type": "JOB",
            "mlflow.source.git.commit": job.origin.commit,
            "mlflow.source.git.repoURL": job.origin.repository,
            "mlflow.source.git.branch": job.origin.ref,
            "trainyard.bucket": self.context.bucket.name,
            "trainyard.image": self.context.identity.image,
            "trainyard.strategy": cluster.strategy,
            "trainyard.workers": str(len(cluster.workers)),
            **{f"trainyard.data.{name}": data.source for name, data in job.data.items()},
            **{f"label.{name}": value for name, value in job.labels.items()},
        }
        tags = {name: str(value) for name, value in origin.items() if value}
        return {
            "run": cluster.run,
            "job": job.name,
            "params": params,
            "tags": tags,
            "resource": self._describe_resource(),
        }

    def _describe_resource(self) -> dict[str, Any]:
        """Return what measures, by OpenTelemetry's semantic conventions of resources."""
        cluster, assignment, identity = self.context.cluster, self.context.assignment, self.context.identity
        found = {
            "service.name": self.context.job.name,
            "service.namespace": identity.tags[Tag.YARD],
            "service.instance.id": f"{cluster.run}/{cluster.attempt}/{assignment.name}",
            "host.id": identity.instance,
            "host.image.id": identity.image,
            "cloud.provider": "aws",
            "cloud.platform": "aws_ec2",
            "cloud.region": identity.region,
            "cloud.availability_zone": identity.zone,
            "trainyard.run": cluster.run,
            "trainyard.job": self.context.job.name,
            "trainyard.attempt": cluster.attempt,
            "trainyard.role": str(assignment.role),
            "trainyard.role.index": assignment.index,
        }
        return {name: value for name, value in found.items() if value != ""}

    def _stage_model(self) -> Path | None:
        """Copy the exported model to a folder that the processes may read. Return None without a model."""
        source, target = self.context.paths.model, self._folder / "model"
        with self.context.account.act():
            files = list(readable_files(source))
            size = sum(path.stat().st_size for path in files)
        if not files or size > LARGEST_MODEL:
            return None
        for path in files:
            copy = target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            with self.context.account.act():
                opened = path.open("rb")
            with opened, copy.open("wb") as out:
                shutil.copyfileobj(opened, out)
        return target


def _status_of(ended: Finished | Stopped | Failed) -> str | None:
    """Return MLflow's word for the end of the run; None if another attempt may follow."""
    match ended:
        case Finished():
            return "FINISHED"
        case Stopped(why):
            return "KILLED" if why in (StopReason.ASKED, StopReason.LIMIT) else None
        case Failed():
            return "FAILED" if ended.final or ended.kind is FailureKind.PROGRAM else None
