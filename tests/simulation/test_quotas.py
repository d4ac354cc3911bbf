"""vCPU quotas that others use for a while: runs wait for their share, and runs that can never fit are refused with
a reason."""

import pytest

from simulation.faults import Fault, HostFault, Kind
from simulation.scenario import Scenario, job
from simulation.simulate import Result, simulate
from simulation.template import YardTemplate
from simulation.yard import Yard

TWO_HOSTS = 8.0
"""vCPUs of a gang of two g6.xlarge."""
HARDWARE = {"instance_types": ["g6.xlarge", "g5.xlarge"], "market": "spot_then_on_demand"}


def simulate_runs(
    template: YardTemplate, runs: int, *, spot: float, on_demand: float, faults: list[Fault]
) -> Result:
    """Simulate simultaneous runs of two hosts in an account with these quotas of GPU vCPUs."""

    def begin(yard: Yard) -> None:
        quotas = yard.ec2.pools.quotas
        for code in quotas:
            quotas[code] = spot if yard.ec2.catalogue.settings.quotas[code].market == "spot" else on_demand
        for number in range(runs):
            cluster = {"strategy": "multi_worker", "workers": 2}
            yard.people.upload(f"jobs/r{number}.json", job(f"r{number}", cluster, hardware=HARDWARE))

    return simulate(template, Scenario("quotas", "runs that share a quota", begin, gang=2), faults=faults)


@pytest.mark.parametrize(("spot", "on_demand"), [(TWO_HOSTS, 0.0), (0.0, TWO_HOSTS), (TWO_HOSTS, TWO_HOSTS)])
def test_runs_wait_for_the_quota_that_others_use(yard: YardTemplate, spot: float, on_demand: float) -> None:
    result = simulate_runs(yard, 4, spot=spot, on_demand=on_demand, faults=[])
    assert not result.broken
    assert result.outcome.count("SUCCEEDED") == 4


def test_an_interrupted_run_continues_once_ec2_no_longer_counts_its_host(yard: YardTemplate) -> None:
    """An instance that is shutting down still counts."""
    gone = Fault(Kind.HOST, "host-2 after started #1", HostFault.WARNED_120)
    result = simulate_runs(yard, 1, spot=TWO_HOSTS, on_demand=0.0, faults=[gone])
    assert not result.broken
    assert result.injected == (gone,)
    assert result.outcome.endswith("SUCCEEDED")


def test_a_run_beyond_every_quota_is_refused_before_any_request(yard: YardTemplate) -> None:
    result = simulate_runs(yard, 1, spot=TWO_HOSTS - 1, on_demand=0.0, faults=[])
    assert "QuotaExceeded" in result.outcome
    assert not result.calls.get("ec2.create_fleet")
