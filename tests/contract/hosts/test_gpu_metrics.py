"""GPU metrics of hosts: utilization and memory, as AWS's agent publishes them."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.contract.conftest import eventually
from tests.contract.hosts.conftest import Hosts

BUSY, HELD = "nvidia_smi_utilization_gpu", "nvidia_smi_memory_used"
COMPUTE = "python3 -c 'while True: sum(range(100000))' & "
HOLD = "python3 -c 'x = bytearray(200 << 20); import time; time.sleep(600)' & "


def values(
    hosts: Hosts, instance_id: str, metric: str, since: datetime, namespace: str = "Trainyard"
) -> list[float]:
    """Return the values published since then, newest first."""
    stat = {
        "Metric": {
            "Namespace": namespace,
            "MetricName": metric,
            "Dimensions": [{"Name": "InstanceId", "Value": instance_id}],
        },
        "Period": 1,
        "Stat": "Maximum",
    }
    answer = hosts.cloud.client("cloudwatch").get_metric_data(
        MetricDataQueries=[{"Id": "q", "MetricStat": stat}],
        StartTime=since,
        EndTime=datetime.now(UTC) + timedelta(seconds=1),
    )
    return list(answer["MetricDataResults"][0]["Values"])


def fresh(hosts: Hosts, instance_id: str, metric: str = BUSY, count: int = 2) -> list[float]:
    """Return the next published values, newest first."""
    begun = datetime.now(UTC) + timedelta(seconds=1)
    found: list[float] = eventually(
        lambda: got if len(got := values(hosts, instance_id, metric, begun)) >= count else None
    )
    return found


def fault(hosts: Hosts, *words: str) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(hosts.cloud.command("fault", *words).stdout)
    return said


def test_a_host_that_computes_on_one_core_is_busy_and_one_that_does_not_is_idle(hosts: Hosts) -> None:
    busy, idle = hosts.launch(2)
    hosts.send([busy], COMPUTE + "wait")
    eventually(lambda: fresh(hosts, busy, count=1)[0] >= 50)
    assert min(fresh(hosts, busy)) >= 50
    assert max(fresh(hosts, idle)) < 25
    assert max(fresh(hosts, busy)) <= 100


def test_hosts_that_share_this_machines_processors_are_busy_all_the_same(hosts: Hosts) -> None:
    many = hosts.launch(4)
    hosts.send(many, COMPUTE + "wait")
    eventually(lambda: all(fresh(hosts, host, count=1)[0] >= 50 for host in many))


def test_memory_is_what_the_processes_hold(hosts: Hosts) -> None:
    host = hosts.one()
    before = fresh(hosts, host, HELD, 1)[0]
    hosts.send([host], HOLD + "wait")
    eventually(lambda: fresh(hosts, host, HELD, 1)[0] > before + 190)


def test_only_types_with_gpus_publish(hosts: Hosts) -> None:
    plain = hosts.one(InstanceType="c6i.large")
    begun = datetime.now(UTC) - timedelta(minutes=5)
    fresh(hosts, hosts.one())
    assert values(hosts, plain, BUSY, begun) == []


@pytest.mark.parametrize("everywhere", [False, True])
def test_a_silenced_host_publishes_nothing_until_faults_are_cleared(hosts: Hosts, everywhere: bool) -> None:
    silenced, other = hosts.launch(2)
    fresh(hosts, silenced)
    fault(hosts, "metrics", *([] if everywhere else [silenced]))
    said = hosts.cloud.command("fault", "list").stdout
    assert ("no host publishes metrics" if everywhere else f"{silenced} publishes no metrics") in said
    begun = datetime.now(UTC) + timedelta(seconds=1)
    if everywhere:
        for _ in range(3):  # each takes about as long as an interval
            hosts.cloud.command("status")
    else:
        fresh(hosts, other, count=3)
    assert values(hosts, silenced, BUSY, begun) == []
    assert hosts.state(silenced) == "running"
    fault(hosts, "clear")
    fresh(hosts, silenced)


def test_a_frozen_host_publishes_nothing(hosts: Hosts) -> None:
    frozen, other = hosts.launch(2)
    fresh(hosts, frozen)
    fault(hosts, "freeze", frozen)
    begun = datetime.now(UTC) + timedelta(seconds=1)
    fresh(hosts, other, count=3)
    assert values(hosts, frozen, BUSY, begun) == []


# ----------------------------------------------------------------------------------------------- EC2's own metrics
def utilization(hosts: Hosts, instance_id: str, count: int = 2) -> list[float]:
    """Return the next values of CPUUtilization, newest first."""
    begun = datetime.now(UTC)
    found: list[float] = eventually(
        lambda: (
            got
            if len(got := values(hosts, instance_id, "CPUUtilization", begun, "AWS/EC2")) >= count
            else None
        )
    )
    return found


def test_ec2_tells_of_the_processors_of_every_instance_in_percent_of_all_its_vcpus(hosts: Hosts) -> None:
    busy, idle = hosts.launch(2, InstanceType="c6i.large")
    hosts.send([busy], COMPUTE + "wait")
    eventually(lambda: utilization(hosts, busy, 1)[0] >= 30)
    assert max(utilization(hosts, busy)) <= 50, "one thread, of two vCPUs"
    assert max(utilization(hosts, idle)) < 25


def test_ec2_tells_of_a_host_that_hangs_and_of_one_whose_agent_is_silent(hosts: Hosts) -> None:
    frozen, silenced = hosts.launch(2)
    fresh(hosts, silenced)
    fault(hosts, "freeze", frozen)
    fault(hosts, "metrics", silenced)
    assert utilization(hosts, frozen)[0] == 0.0, "the period before it may have begun before the freeze"
    assert utilization(hosts, silenced)
    fault(hosts, "clear")
