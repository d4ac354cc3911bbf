"""Publish the use of the GPUs from this host itself if the CloudWatch agent's metrics do not arrive.

Names, units, and dimensions are the same as the CloudWatch agent's (training/baking/cloudwatch.py), so readers need not
distinguish them. If both publish, the maximum is correct.
"""

import logging
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from training.host.errors import AccessDenied, HostTrouble
from trainyard.protocol import host_metrics
from trainyard.protocol.tags import Tag

NAMESPACE = host_metrics.NAMESPACE
UTILIZATION, MEMORY = host_metrics.GPU_UTILIZATION, host_metrics.GPU_MEMORY
UNITS = {UTILIZATION: "Percent", MEMORY: "Megabytes"}
INTERVAL_SECONDS = host_metrics.GPU_SECONDS

QUERY = ("nvidia-smi", "--query-gpu=utilization.gpu,memory.used", "--format=csv,noheader,nounits")
"""Prints one line for each GPU, with the metrics in the order of UNITS."""
ANSWER_SECONDS = 30.0
FIRST_LOOK = timedelta(minutes=6)
"""Time from the agent's start to its first look: the CloudWatch agent's first metrics take some minutes."""
LOOK_AGAIN = timedelta(minutes=15)
SPAN = timedelta(minutes=5)
ACCESS = {"AccessDenied", "AccessDeniedException"}
MOST_SHOWN = 200

logger = logging.getLogger(__name__)

Shown = Mapping[str, tuple[float, ...]]
"""The values of all GPUs by metric. A metric that some GPU does not report is missing, because unknown is not idle."""


class GpuMetrics:
    """Publishes the metrics of this instance that CloudWatch lacks. Call `turn` once in INTERVAL_SECONDS.

    A trouble is logged once and ends nothing. A metric that was published once is always published from then on."""

    def __init__(self, cloudwatch: Any, instance: str, *, born: datetime) -> None:
        self.publishes: frozenset[str] = frozenset()
        self._cloudwatch = cloudwatch
        self._instance = instance
        self._born = born
        self._looked: datetime | None = None
        self._logged: set[str] = set()

    def turn(self, now: datetime) -> None:
        try:
            self._publish(now)
        except HostTrouble as trouble:
            self._log_once(trouble.reason)

    def _publish(self, now: datetime) -> None:
        looks = is_due(self._born, self._looked, self.publishes, now)
        if not looks and not self.publishes:
            return
        shown = read_driver()
        if looks:
            self._look(now)
        for name in sorted(self.publishes - set(shown)):
            self._log_once(f"nvidia-smi does not report {name} for every GPU, so it is not published")
        data = [
            datum(name, shown[name], self._instance, now)
            for name in UNITS
            if name in self.publishes & set(shown)
        ]
        if data:
            put(self._cloudwatch, data, what="the GPU metrics")

    def _look(self, now: datetime) -> None:
        """Find the metrics that do not arrive. This host's own metrics from before a restart do not count."""
        self._looked = now
        since = max(now - SPAN, self._born + timedelta(minutes=1))
        missing = (
            set(UNITS)
            - set(read_arrived(self._cloudwatch, self._instance, since=since, now=now))
            - self.publishes
        )
        if missing:
            logger.warning(
                "%s of this host did not arrive in CloudWatch within %d minutes: from now on this agent publishes "
                "them; see /opt/aws/amazon-cloudwatch-agent/logs for the CloudWatch agent's errors",
                " and ".join(sorted(missing)),
                SPAN.total_seconds() // 60,
            )
        self.publishes |= missing

    def _log_once(self, reason: str) -> None:
        if reason not in self._logged:
            self._logged.add(reason)
            logger.warning("gpu metrics: %s", reason)


def count_of_host(tags: Mapping[str, str]) -> int:
    """Return the number of GPUs of the host's type, from its tags. Return 1 if the tag is missing."""
    return int(tags.get(Tag.GPUS, "1"))


def are_wanted(tags: Mapping[str, str]) -> bool:
    """Return True if this host may publish: a yard's host with a GPU and the driver's command, but not a builder, whose
    bake tests if the CloudWatch agent publishes."""
    if Tag.YARD not in tags or tags.get(Tag.KIND) == "bake" or not count_of_host(tags):
        return False
    if shutil.which(QUERY[0]):
        return True
    logger.info("there is no %s on this host: it publishes no GPU metrics", QUERY[0])
    return False


def is_due(born: datetime, looked: datetime | None, publishes: frozenset[str], now: datetime) -> bool:
    """Return True if it is time to check the metrics in CloudWatch: some minutes after the start, then less often,
    until this host publishes all metrics itself."""
    if publishes == frozenset(UNITS):
        return False
    return now - (looked or born) >= (LOOK_AGAIN if looked else FIRST_LOOK)


def read_driver() -> Shown:
    """Return the present use of the GPUs. Raises HostTrouble if the driver does not answer."""
    try:
        done = subprocess.run(QUERY, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostTrouble(
            f"{QUERY[0]} does not answer: {error}; idle GPUs of this host are not detected"
        ) from error
    if done.returncode:
        output = (done.stdout + done.stderr).strip()[-MOST_SHOWN:]
        raise HostTrouble(
            f"{QUERY[0]} failed (exit code {done.returncode}): {output}; idle GPUs of this host are not detected"
        )
    return parse(done.stdout)


def parse(text: str) -> Shown:
    """Parse the output of QUERY. If a GPU has `[N/A]` or an error instead of a number, the metric is unknown."""
    rows = [[word.strip() for word in line.split(",")] for line in text.splitlines() if line.strip()]
    columns = dict(zip(UNITS, zip(*rows, strict=False), strict=False))
    return {
        name: tuple(float(word) for word in words)
        for name, words in columns.items()
        if all(map(_is_number, words))
    }


def datum(name: str, values: tuple[float, ...], instance: str, now: datetime) -> dict[str, Any]:
    """Return all GPUs of the host as one series, whose Maximum is the busiest GPU, as for the CloudWatch agent."""
    counted = sorted(Counter(values).items())
    return {
        "MetricName": name,
        "Dimensions": [{"Name": "InstanceId", "Value": instance}],
        "Timestamp": now,
        "Unit": UNITS[name],
        "Values": [value for value, _ in counted],
        "Counts": [float(count) for _, count in counted],
    }


def read_arrived(cloudwatch: Any, instance: str, *, since: datetime, now: datetime) -> Mapping[str, float]:
    """Return the greatest value of each metric that CloudWatch has for this instance.

    Raises HostTrouble if CloudWatch cannot be reached."""
    names = {f"m{place}": name for place, name in enumerate(UNITS)}
    queries = [
        {
            "Id": word,
            "MetricStat": {
                "Metric": {
                    "Namespace": NAMESPACE,
                    "MetricName": name,
                    "Dimensions": [{"Name": "InstanceId", "Value": instance}],
                },
                "Period": INTERVAL_SECONDS,
                "Stat": "Maximum",
            },
        }
        for word, name in names.items()
    ]
    try:
        answer = cloudwatch.get_metric_data(MetricDataQueries=queries, StartTime=since, EndTime=now)
    except (ClientError, BotoCoreError) as error:
        raise _trouble(error, "GetMetricData") from error
    return {
        names[found["Id"]]: max(found["Values"]) for found in answer["MetricDataResults"] if found["Values"]
    }


def put(cloudwatch: Any, data: list[dict[str, Any]], *, what: str) -> None:
    """Publish metrics. `what` names them in errors. Raises HostTrouble."""
    try:
        cloudwatch.put_metric_data(Namespace=NAMESPACE, MetricData=data)
    except (ClientError, BotoCoreError) as error:
        raise _trouble(error, "PutMetricData", what) from error


def _trouble(error: ClientError | BotoCoreError, call: str, what: str = "the GPU metrics") -> HostTrouble:
    if isinstance(error, ClientError) and error.response["Error"]["Code"] in ACCESS:
        return AccessDenied(f"cloudwatch:{call}", "*")
    return HostTrouble(f"CloudWatch did not accept {call} for {what}: {error}")


def _is_number(word: str) -> bool:
    return word.replace(".", "", 1).isdigit()
