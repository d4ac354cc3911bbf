"""Every strategy makes a cluster and is in the docs."""

from pathlib import Path

import pytest

from tests.unit.core.builders import NOON
from training.host.program import frameworks
from trainyard.core.model import gang
from trainyard.core.model.hardware import Cluster
from trainyard.core.model.job import Job
from trainyard.core.model.program import Program
from trainyard.protocol.cluster import Cluster as HostsCluster
from trainyard.protocol.cluster import Member, Role, Strategy

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("page", ["docs/programs.md", "docs/job-file.md"])
def test_the_pages_name_every_strategy(page: str) -> None:
    text = (ROOT / page).read_text()
    assert [kind.value for kind in Strategy if f"`{kind.value}`" not in text] == []


@pytest.mark.parametrize("strategy", Strategy)
def test_hosts_form_a_cluster_of_every_strategy(strategy: Strategy) -> None:
    asynchronous = strategy.is_asynchronous
    cluster = Cluster(
        strategy=strategy,
        workers=2 if strategy.has_several_hosts else 1,
        parameter_servers=int(asynchronous),
        evaluator=strategy.has_several_hosts,
    )
    job = Job(name="digits", program=Program(module="main"), cluster=cluster)
    members = [Member(instance=f"i-{number}", address=f"10.0.0.{number}") for number in range(job.gang)]
    hosts = HostsCluster(
        run="digits-1",
        attempt=1,
        strategy=strategy,
        assignments=gang.assignments(job, members),
        deadline=NOON,
    )
    chief, *others = hosts.assignments
    assert hosts.chief_trains is cluster.chief_trains
    assert (frameworks.tf_config(hosts, chief) is not None) is strategy.has_several_hosts
    assert all(hosts.serves(other) is (asynchronous or other.role == "evaluator") for other in others)
    assert {host.role for host in hosts.assignments} <= set(Role)
