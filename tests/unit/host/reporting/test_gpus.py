"""GPU metrics from the host itself: the times of publishing, and the reading of nvidia-smi's output."""

import logging
import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from tests.support.nvidia import EIGHT, nvidia_smi
from training.host.errors import HostTrouble
from training.host.reporting import gpus
from training.host.reporting.gpus import MEMORY, UNITS, UTILIZATION, GpuMetrics

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
ONE = "0, 4\n"
SPLIT = "[N/A], 8192\n[N/A], 0\n"
"""The driver does not report the use of a GPU in MIG mode."""
NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA "
    "driver is installed and running."
)


@pytest.fixture
def bin_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that is first on the PATH."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


class CloudWatch:
    """A CloudWatch with metrics of one host. It accepts metrics, and may deny reads or writes."""

    def __init__(self, *has: str, denies: Iterable[str] = ()) -> None:
        self.has, self.denies = set(has), set(denies)
        self.asked: list[dict[str, Any]] = []
        self.put: list[dict[str, Any]] = []

    def get_metric_data(self, **request: Any) -> dict[str, Any]:
        self._judge("GetMetricData")
        self.asked.append(request)
        found = []
        for query in request["MetricDataQueries"]:
            name = query["MetricStat"]["Metric"]["MetricName"]
            found.append({"Id": query["Id"], "Values": [0.0] if name in self.has else []})
        return {"MetricDataResults": found}

    def put_metric_data(self, **request: Any) -> None:
        self._judge("PutMetricData")
        assert request["Namespace"] == "Trainyard"
        self.put += request["MetricData"]

    def _judge(self, call: str) -> None:
        if call in self.denies:
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, call)


def turns(metrics: GpuMetrics, minutes: int, *, first: int = 1) -> None:
    for minute in range(first, first + minutes):
        metrics.turn(NOW + timedelta(minutes=minute))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (ONE, {UTILIZATION: (0.0,), MEMORY: (4.0,)}),
        (
            EIGHT,
            {UTILIZATION: (0, 0, 97, 0, 0, 0, 0, 12), MEMORY: (523, 523, 70123, 523, 523, 523, 523, 3001)},
        ),
        (SPLIT, {MEMORY: (8192.0, 0.0)}),
        ("5, 100\n[N/A], 200\n", {MEMORY: (100.0, 200.0)}),
        ("[Unknown Error], [Unknown Error]\n", {}),
        ("[Not Supported], 100\n", {MEMORY: (100.0,)}),
        ("No devices were found\n", {}),
        ("", {}),
    ],
)
def test_what_is_read(text: str, shown: dict[str, tuple[float, ...]]) -> None:
    assert gpus.parse(text) == shown


def test_the_busiest_of_eight_is_the_maximum(bin_: Path) -> None:
    asked = nvidia_smi(bin_, EIGHT)
    cloudwatch = CloudWatch()
    turns(GpuMetrics(cloudwatch, "i-1", born=NOW), 6)
    assert asked.read_text() == "--query-gpu=utilization.gpu,memory.used --format=csv,noheader,nounits\n"
    busy, held = cloudwatch.put
    assert (busy["MetricName"], busy["Unit"], held["MetricName"], held["Unit"]) == (
        "nvidia_smi_utilization_gpu",
        "Percent",
        "nvidia_smi_memory_used",
        "Megabytes",
    )
    assert busy["Dimensions"] == held["Dimensions"] == [{"Name": "InstanceId", "Value": "i-1"}]
    assert dict(zip(busy["Values"], busy["Counts"], strict=True)) == {0.0: 6.0, 12.0: 1.0, 97.0: 1.0}


@pytest.mark.parametrize(
    ("sentence", "looked", "publishes", "minutes", "due"),
    [
        ("the agent has some minutes to begin", None, (), 5, False),
        ("then CloudWatch is asked", None, (), 6, True),
        ("and again after a quarter of an hour", 6, (), 20, False),
        ("for as long as the host is silent", 6, (), 21, True),
        ("or for the other metric", 6, (MEMORY,), 21, True),
        ("but never for what it publishes itself", 6, (UTILIZATION, MEMORY), 600, False),
    ],
)
def test_when_cloudwatch_is_asked(
    sentence: str, looked: int | None, publishes: tuple[str, ...], minutes: int, due: bool
) -> None:
    before = NOW + timedelta(minutes=looked) if looked else None
    assert gpus.is_due(NOW, before, frozenset(publishes), NOW + timedelta(minutes=minutes)) is due, sentence


def test_while_the_agents_metrics_arrive_the_host_is_silent_and_asks_seldom(bin_: Path) -> None:
    asked = nvidia_smi(bin_, ONE)
    cloudwatch = CloudWatch(*UNITS)
    turns(GpuMetrics(cloudwatch, "i-1", born=NOW), 60)
    assert cloudwatch.put == []
    assert len(cloudwatch.asked) == len(asked.read_text().splitlines()) == 4


def test_once_they_cease_the_host_publishes_every_minute(bin_: Path) -> None:
    nvidia_smi(bin_, ONE)
    cloudwatch = CloudWatch(*UNITS)
    metrics = GpuMetrics(cloudwatch, "i-1", born=NOW)
    turns(metrics, 10)
    cloudwatch.has.clear()
    turns(metrics, 50, first=11)
    assert len(cloudwatch.asked) == 2
    minutes = {datum["Timestamp"] for datum in cloudwatch.put}
    assert minutes == {NOW + timedelta(minutes=minute) for minute in range(21, 61)}


def test_what_the_host_put_before_its_agent_was_started_again_proves_nothing(bin_: Path) -> None:
    nvidia_smi(bin_, ONE)
    cloudwatch = CloudWatch()
    turns(GpuMetrics(cloudwatch, "i-1", born=NOW), 6)
    (asked,) = cloudwatch.asked
    assert asked["StartTime"] > NOW


def test_only_the_metric_that_is_missing_is_published(bin_: Path) -> None:
    nvidia_smi(bin_, EIGHT)
    cloudwatch = CloudWatch(MEMORY)
    turns(GpuMetrics(cloudwatch, "i-1", born=NOW), 6)
    assert [datum["MetricName"] for datum in cloudwatch.put] == [UTILIZATION]


def test_gpus_that_do_not_tell_are_unknown_and_not_idle(bin_: Path, caplog: pytest.LogCaptureFixture) -> None:
    nvidia_smi(bin_, SPLIT)
    cloudwatch = CloudWatch()
    turns(GpuMetrics(cloudwatch, "i-1", born=NOW), 10)
    assert {datum["MetricName"] for datum in cloudwatch.put} == {MEMORY}
    assert caplog.text.count("does not report nvidia_smi_utilization_gpu for every GPU") == 1


def test_a_driver_that_does_not_answer_is_said_once_and_costs_nothing(
    bin_: Path, caplog: pytest.LogCaptureFixture
) -> None:
    nvidia_smi(bin_, NO_DRIVER, code=9)
    cloudwatch = CloudWatch()
    turns(GpuMetrics(cloudwatch, "i-1", born=NOW), 60)
    assert (cloudwatch.asked, cloudwatch.put) == ([], [])
    assert caplog.text.count("nvidia-smi failed (exit code 9): NVIDIA-SMI has failed") == 1


def test_a_driver_that_never_answers_is_trouble(bin_: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bin_ / "nvidia-smi").write_text("#!/bin/sh\nexec sleep 60\n")
    (bin_ / "nvidia-smi").chmod(0o755)
    monkeypatch.setattr(gpus, "ANSWER_SECONDS", 0.2)
    with pytest.raises(HostTrouble, match="does not answer"):
        gpus.read_driver()


@pytest.mark.parametrize("call", ["GetMetricData", "PutMetricData"])
def test_a_missing_permission_is_said_once_by_its_name_and_tried_again(
    bin_: Path, caplog: pytest.LogCaptureFixture, call: str
) -> None:
    nvidia_smi(bin_, ONE)
    cloudwatch = CloudWatch(denies=[call])
    metrics = GpuMetrics(cloudwatch, "i-1", born=NOW)
    turns(metrics, 40)
    assert cloudwatch.put == []
    assert caplog.text.count(f"lacks cloudwatch:{call}") == 1
    cloudwatch.denies.clear()
    turns(metrics, 15, first=41)
    assert cloudwatch.put


def test_a_cloudwatch_that_cannot_be_reached_ends_nothing(
    bin_: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Away:
        def get_metric_data(self, **_: Any) -> None:
            raise EndpointConnectionError(endpoint_url="https://monitoring")

    nvidia_smi(bin_, ONE)
    turns(GpuMetrics(Away(), "i-1", born=NOW), 40)
    assert caplog.text.count("CloudWatch did not accept GetMetricData") == 1


@pytest.mark.parametrize(
    ("sentence", "tags", "wanted"),
    [
        ("a host of a run", {"trainyard:yard": "trainyard", "trainyard:run": "digits-1"}, True),
        (
            "one that was launched from an image",
            {"trainyard:yard": "trainyard", "trainyard:kind": "dev-host"},
            True,
        ),
        (
            "a builder: its bake tests the agent",
            {"trainyard:yard": "trainyard", "trainyard:kind": "bake"},
            False,
        ),
        (
            "one whose type has no GPU, though its image has the command",
            {"trainyard:yard": "trainyard", "trainyard:gpus": "0"},
            False,
        ),
        ("a machine outside the yard", {}, False),
    ],
)
def test_who_publishes(bin_: Path, sentence: str, tags: dict[str, str], wanted: bool) -> None:
    nvidia_smi(bin_, ONE)
    assert gpus.are_wanted(tags) is wanted, sentence


def test_a_host_without_the_drivers_command_says_so_and_does_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with caplog.at_level(logging.INFO):
        assert not gpus.are_wanted({"trainyard:yard": "trainyard"})
    assert "no nvidia-smi on this host" in caplog.text
