"""A yard in a user's own CDK app (examples/embedded), beside another yard in the same account."""

from tests.e2e import beside
from tests.e2e.runs import Runs


def test_a_job_trains_in_a_network_of_the_apps_own_without_public_addresses(runs: Runs) -> None:
    theirs = beside.deployed(runs, "Research", "--app", "python3 -m examples.embedded.app")
    yard = theirs.yard
    run = theirs.run(theirs.job("embedded"))
    assert run.succeeded, run.why()
    subnets = {
        subnet["SubnetId"]
        for subnet in yard.session.client("ec2").describe_subnets(
            Filters=[{"Name": "cidr-block", "Values": ["10.90.*"]}]
        )["Subnets"]
    }
    hosts = yard.instances(run.id)
    assert len(hosts) == 2
    assert {host["SubnetId"] for host in hosts} <= subnets
    assert [host for host in hosts if host.get("PublicIpAddress")] == []
