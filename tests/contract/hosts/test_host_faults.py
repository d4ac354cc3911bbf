"""Frozen or disconnected hosts that EC2 reports as running."""

import json
from typing import Any

from tests.contract.conftest import eventually
from tests.contract.hosts.conftest import Hosts
from tests.contract.hosts.knocking import CALL, TOKEN, knock, seen, watching
from tests.contract.hosts.processes import processes_of

COUNT = "while :; do date +%s.%N >> /opt/count; sleep 0.05; done"


def fault(hosts: Hosts, *words: str) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(hosts.cloud.command("fault", *words).stdout)
    return said


def impaired(hosts: Hosts) -> dict[str, Any]:
    found: dict[str, Any] = hosts.cloud.admin("GET", "/faults")["impaired"]
    return found


def counted(hosts: Hosts, instance_id: str) -> int:
    """Return the size of a file that a process of the host extends."""
    return (hosts.cloud.state / "instances" / instance_id / "upper" / "opt" / "count").stat().st_size


def stands_still(hosts: Hosts, instance_id: str) -> bool:
    """Return True if the count stays the same over a time that is long for a process that counts every 50 ms."""
    before = counted(hosts, instance_id)
    hosts.cloud.command("fault", "list")  # takes a second or so
    return counted(hosts, instance_id) == before


def rebooted(hosts: Hosts, instance_id: str) -> None:
    """Reboot the host and wait until all of its earlier processes are gone."""
    before = set(processes_of(hosts.cloud, instance_id))
    hosts.ec2.reboot_instances(InstanceIds=[instance_id])
    eventually(lambda: (now := set(processes_of(hosts.cloud, instance_id))) and not now & before)


def test_a_frozen_host_does_nothing_is_running_to_ec2_and_goes_on_when_faults_are_cleared(
    hosts: Hosts,
) -> None:
    hung = hosts.one()
    hosts.send([hung], COUNT)
    eventually(lambda: (hosts.cloud.state / "instances" / hung / "upper/opt/count").exists())
    assert fault(hosts, "freeze", hung) == {"instance_id": hung, "fault": "frozen", "until": None}
    assert stands_still(hosts, hung)
    assert hosts.state(hung) == "running"
    asked = hosts.send([hung], "echo heard")
    assert f"{hung}: frozen until cleared" in hosts.cloud.command("fault", "list").stdout
    still = counted(hosts, hung)
    assert hosts.ssm.list_command_invocations(CommandId=asked)["CommandInvocations"][0]["Status"] == "Pending"
    assert f"{hung} frozen" in fault(hosts, "clear")["cleared"]
    eventually(lambda: counted(hosts, hung) > still)
    assert hosts.over(asked, hung)["StandardOutputContent"].strip() == "heard"
    assert hung not in impaired(hosts)


def test_a_host_thaws_after_the_seconds_it_was_frozen_for(hosts: Hosts) -> None:
    hung = hosts.one()
    hosts.run(hung, "sleep 1000 & kill -STOP $!; echo $! > /opt/stopped")
    assert fault(hosts, "freeze", hung, "--seconds", "1")["until"]
    eventually(lambda: hung not in impaired(hosts))
    assert hosts.run(hung, "cut -d' ' -f3 /proc/$(cat /opt/stopped)/stat") == "T", (
        "stopped before, stopped still"
    )


def test_a_frozen_host_is_terminated_like_any_other(hosts: Hosts) -> None:
    hung = hosts.one()
    fault(hosts, "freeze", hung)
    hosts.ec2.terminate_instances(InstanceIds=[hung])
    hosts.until(hung, "terminated")
    assert processes_of(hosts.cloud, hung) == []
    assert hung not in impaired(hosts)


def test_a_reboot_ends_a_hang(hosts: Hosts) -> None:
    hung = hosts.one()
    fault(hosts, "freeze", hung)
    rebooted(hosts, hung)
    assert hosts.state(hung) == "running"
    assert hung not in impaired(hosts)


def test_nothing_reaches_a_host_that_is_cut_off_and_it_reaches_nothing(hosts: Hosts) -> None:
    alone, other = hosts.launch(2)
    ask = f"{CALL}; {TOKEN}"
    watching(hosts, alone, f"( {ask} )")
    eventually(lambda: seen(hosts, alone) == "403200")
    knocking = knock(hosts, alone)
    assert hosts.run(other, knocking) == "there"
    assert fault(hosts, "cut", alone)["fault"] == "cut"
    assert hosts.run(other, knocking) == "lost"
    eventually(lambda: seen(hosts, alone) == "000000")
    assert hosts.state(alone) == "running"
    assert f"{alone}: cut until cleared" in hosts.cloud.command("fault", "list").stdout
    asked = hosts.send([alone], "echo heard")
    assert hosts.ssm.list_command_invocations(CommandId=asked)["CommandInvocations"][0]["Status"] == "Pending"
    fault(hosts, "clear")
    eventually(lambda: seen(hosts, alone) == "403200")
    assert hosts.run(other, knocking) == "there"
    assert hosts.over(asked, alone)["Status"] == "Success"


def test_a_cut_heals_after_its_seconds_though_the_host_is_down_just_then(hosts: Hosts) -> None:
    alone, other = hosts.launch(2)
    knocking = knock(hosts, alone)
    fault(hosts, "cut", alone)
    rebooted(hosts, alone)
    assert hosts.run(other, knocking) == "lost", "a reboot does not reconnect the host"
    fault(hosts, "cut", alone, "--seconds", "0.2")
    hosts.ec2.reboot_instances(InstanceIds=[alone])
    eventually(lambda: hosts.run(other, knocking) == "there")
    assert alone not in impaired(hosts)


def test_only_a_host_that_is_there_can_hang(hosts: Hosts) -> None:
    refused = hosts.cloud.command("fault", "freeze", "i-0123456789abcdef0", check=False)
    assert refused.returncode == 1
    assert "unknown instance" in refused.stderr
