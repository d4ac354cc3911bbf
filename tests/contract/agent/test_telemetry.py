"""Runs whose metrics leave the yard through OpenTelemetry's exporter, to a receiver on loopback."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.contract.agent.host import Yard
from tests.contract.conftest import ROOT
from training.host.program.packages import site_packages

CLIENT = ROOT / ".tools/trackers"
HEADERS = "api-key=a-key-of-the-receiver"
PROGRAM = """
import json, os
out = open(os.environ["TRAINYARD_PROGRESS"], "a")
for step in range(1, 21):
    values = {"step": step, "steps": 20, "loss": 1 / step, "val/Größe der 1. Klasse": step / 20, "bad": "NaN"}
    print(json.dumps(values), file=out, flush=True)
print("variables:", sorted(name for name in os.environ if name.startswith("OTEL_")), flush=True)
"""
Start: TypeAlias = Callable[..., str]


@pytest.fixture(autouse=True)
def client(yard: Yard) -> None:
    """Give the host the exporter."""
    assert (CLIENT / "bin/python").exists(), "make trackers installs the exporter"
    packages = site_packages(yard.paths.python.parent.parent) / "client.pth"
    packages.write_text(f"{site_packages(CLIENT)}\n")


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Start]:
    """Return a function that starts a receiver and returns its address. Its requests are in `received(tmp_path)`."""
    started: list[subprocess.Popen[str]] = []

    def start(how: str = "200", file: str = "received") -> str:
        words = [str(CLIENT / "bin/python"), str(ROOT / "tests/support/otlp.py"), str(tmp_path / file), how]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout
        return f"http://127.0.0.1:{process.stdout.readline().strip()}"

    yield start
    for process in started:
        process.kill()
        process.communicate()


def received(folder: Path, file: str = "received") -> list[dict[str, Any]]:
    path = folder / file
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def values_of(attributes: list[dict[str, Any]]) -> dict[str, Any]:
    return {each["key"]: next(iter(each["value"].values())) for each in attributes}


def points_of(requests: list[dict[str, Any]]) -> list[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    """Return the instrument, the unit, the attributes and the point of all points."""
    metrics = [
        metric
        for each in requests
        for resource in each["request"]["resourceMetrics"]
        for scope in resource["scopeMetrics"]
        for metric in scope["metrics"]
    ]
    return [
        (metric["name"], metric.get("unit", ""), values_of(point.get("attributes", [])), point)
        for metric in metrics
        for point in (metric.get("gauge") or metric["sum"])["dataPoints"]
    ]


def run(yard: Yard, **changes: Any) -> None:
    yard.prepare(PROGRAM, **changes)
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    yard.hear("finished")


def test_scalars_and_the_use_of_the_host_reach_the_receiver_of_the_yard_with_its_key(
    yard: Yard, receiver: Start, tmp_path: Path
) -> None:
    ssm = yard.cloud.client("ssm")
    ssm.put_parameter(Name=f"/{yard.name}/secrets/otlp", Value=HEADERS, Type="SecureString", Overwrite=True)
    run(yard, telemetry={"endpoint": receiver(), "headers": "otlp"})
    requests = received(tmp_path)
    assert {(each["path"], each["headers"]["api-key"]) for each in requests} == {
        ("/v1/metrics", "a-key-of-the-receiver")
    }
    resource = values_of(requests[0]["request"]["resourceMetrics"][0]["resource"]["attributes"])
    assert resource["service.name"] == "mine"
    assert resource["service.instance.id"] == f"{yard.run}/1/chief-0"
    assert (resource["cloud.provider"], resource["cloud.platform"]) == ("aws", "aws_ec2")
    assert resource["host.id"].startswith("i-")
    assert (resource["trainyard.run"], resource["trainyard.attempt"]) == (yard.run, "1")
    assert (resource["trainyard.role"], resource["telemetry.sdk.name"]) == ("chief", "opentelemetry")
    points = points_of(requests)
    scalars = [each for each in points if each[0] == "trainyard.program.scalar"]
    assert {each[2]["trainyard.scalar.name"] for each in scalars} == {
        "loss",
        "val/Größe der 1. Klasse",
        "bad",
    }
    loss = [point["asDouble"] for _, _, name, point in scalars if name["trainyard.scalar.name"] == "loss"]
    assert loss == [1 / step for step in range(1, 21)]
    bad = [point["asDouble"] for _, _, name, point in scalars if name["trainyard.scalar.name"] == "bad"]
    assert set(bad) == {"NaN"}
    assert {unit for name, unit, _, _ in points if name == "trainyard.host.cpu.busy"} == {"{cpu}"}
    (memory, *_) = [each for each in points if each[0] == "system.memory.usage"]
    assert (memory[1], memory[2], memory[3]["asDouble"] > 1e6) == (
        "By",
        {"system.memory.state": "used"},
        True,
    )
    assert "has not got everything" not in yard.log(1)
    assert "variables: []" in yard.log(1), "the program gets neither the address nor the key"
    assert HEADERS not in yard.log(1)


def test_a_job_may_have_a_receiver_of_its_own_which_gets_no_key_of_the_yard(
    yard: Yard, receiver: Start, tmp_path: Path
) -> None:
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver(), "OTEL_SERVICE_NAME": "its own"}
    telemetry = {"endpoint": receiver(file="of the yard"), "headers": "otlp"}
    run(yard, program={"environment": environment}, track=["otel"], telemetry=telemetry)
    requests = received(tmp_path)
    assert points_of(requests)
    assert not any("api-key" in each["headers"] for each in requests)
    resource = values_of(requests[0]["request"]["resourceMetrics"][0]["resource"]["attributes"])
    assert resource["service.name"] == "its own"
    assert received(tmp_path, "of the yard") == []


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("hang", "OpenTelemetry has not got everything of this run: "),
        ("401", "OpenTelemetry has not got everything of this run: points cannot be sent: "),
        ("redirect", "OpenTelemetry has not got everything of this run: points cannot be sent: "),
        ("down", "OpenTelemetry has not got everything of this run: "),
    ],
)
def test_a_receiver_that_takes_nothing_costs_no_run_and_one_line(
    yard: Yard, receiver: Start, tmp_path: Path, how: str, said: str
) -> None:
    internal = receiver(file="internal")
    how = f"to:{internal}/v1/metrics" if how == "redirect" else how
    endpoint = "http://127.0.0.1:9" if how == "down" else receiver(how)
    run(yard, telemetry={"endpoint": endpoint, "headers": ""})
    log = yard.log(1)
    assert log.count(said) == 1
    assert "All points are in the bucket (run.metrics())" in log
    assert received(tmp_path, "internal") == [], "no redirect is followed"


def test_a_missing_secret_costs_only_the_metrics_there(yard: Yard, receiver: Start, tmp_path: Path) -> None:
    run(yard, telemetry={"endpoint": receiver(), "headers": "nowhere"})
    assert "the metrics of this run do not reach http://127.0.0.1:" in yard.log(1)
    assert received(tmp_path) == []
