"""Instance states, forbidden actions, and events."""

from datetime import UTC, datetime, timedelta

import pytest
from botocore.exceptions import ClientError

from tests.contract.conftest import eventually
from tests.contract.ec2.conftest import Yard, error_code


def test_every_state_is_told_on_the_default_bus_in_order(yard: Yard) -> None:
    host = yard.run()[0]
    yard.becomes(host, "running")
    yard.ec2.stop_instances(InstanceIds=[host])
    yard.becomes(host, "stopped")
    yard.ec2.start_instances(InstanceIds=[host])
    yard.becomes(host, "running")
    yard.ec2.terminate_instances(InstanceIds=[host])
    yard.becomes(host, "terminated")
    eventually(lambda: "terminated" in yard.states_seen(host))
    assert yard.states_seen(host) == [
        "pending", "running", "stopping", "stopped", "pending", "running", "shutting-down", "terminated",
    ]  # fmt: skip


def test_the_event_names_the_instance_and_nothing_more(yard: Yard) -> None:
    host = yard.run()[0]
    eventually(lambda: yard.states_seen(host))
    event = yard.events(host, "EC2 Instance State-change Notification")[0]
    assert event["source"] == "aws.ec2"
    assert event["detail"] == {"instance-id": host, "state": "pending"}
    assert event["resources"] == [f"arn:aws:ec2:us-east-1:123456789012:instance/{host}"]


def test_a_stopped_host_keeps_its_disk_and_its_address(yard: Yard) -> None:
    host = yard.run(UserData="#!/bin/sh\nmkdir -p /opt/kept\necho made-it\n")[0]
    yard.becomes(host, "running")
    eventually(lambda: "made-it" in yard.printed(host))
    address = yard.instance(host)["PrivateIpAddress"]
    yard.ec2.stop_instances(InstanceIds=[host])
    stopped = yard.becomes(host, "stopped")
    assert stopped["PrivateIpAddress"] == address
    assert stopped["BlockDeviceMappings"]
    assert stopped["StateReason"]["Code"] == "Client.UserInitiatedShutdown"
    assert (yard.cloud.state / "instances" / host / "upper" / "opt" / "kept").is_dir()
    yard.ec2.terminate_instances(InstanceIds=[host])
    yard.becomes(host, "terminated")
    assert not (yard.cloud.state / "instances" / host).exists()


def test_a_terminated_host_stays_visible_and_frees_what_it_had(yard: Yard) -> None:
    host = yard.run()[0]
    before = yard.becomes(host, "running")
    yard.ec2.terminate_instances(InstanceIds=[host])
    gone = yard.becomes(host, "terminated")
    assert gone["StateReason"]["Code"] == "Client.UserInitiatedShutdown"
    assert gone["StateTransitionReason"].startswith("User initiated (")
    volume = before["BlockDeviceMappings"][0]["Ebs"]["VolumeId"]
    card = before["NetworkInterfaces"][0]["NetworkInterfaceId"]
    assert error_code(yard.ec2.describe_volumes, VolumeIds=[volume]) == "InvalidVolume.NotFound"
    with pytest.raises(ClientError, match="NotFound"):
        yard.ec2.describe_network_interfaces(NetworkInterfaceIds=[card])


def test_terminating_twice_is_fine_and_one_unknown_id_fails_all(yard: Yard) -> None:
    host = yard.run()[0]
    unknown = "i-0123456789abcdef0"
    code = error_code(yard.ec2.terminate_instances, InstanceIds=[host, unknown])
    assert code == "InvalidInstanceID.NotFound"
    assert yard.state(host) in ("pending", "running")
    for _ in range(2):
        answer = yard.ec2.terminate_instances(InstanceIds=[host])
        assert answer["TerminatingInstances"][0]["CurrentState"]["Name"] in ("shutting-down", "terminated")


def test_what_the_state_forbids_is_an_incorrect_state(yard: Yard) -> None:
    host = yard.run()[0]
    yard.becomes(host, "running")
    yard.ec2.terminate_instances(InstanceIds=[host])
    assert error_code(yard.ec2.start_instances, InstanceIds=[host]) == "IncorrectInstanceState"
    assert error_code(yard.ec2.stop_instances, InstanceIds=[host]) == "IncorrectInstanceState"


def test_a_protected_host_is_not_terminated(yard: Yard) -> None:
    host = yard.run()[0]
    yard.ec2.modify_instance_attribute(InstanceId=host, DisableApiTermination={"Value": True})
    assert error_code(yard.ec2.terminate_instances, InstanceIds=[host]) == "OperationNotPermitted"
    yard.ec2.modify_instance_attribute(InstanceId=host, DisableApiTermination={"Value": False})
    yard.ec2.terminate_instances(InstanceIds=[host])


def test_changing_an_attribute_changes_that_and_nothing_else(yard: Yard) -> None:
    host = yard.run()[0]
    groups = yard.instance(host)["NetworkInterfaces"][0]["Groups"]
    yard.ec2.modify_instance_attribute(
        InstanceId=host, InstanceInitiatedShutdownBehavior={"Value": "terminate"}
    )
    told = yard.ec2.describe_instance_attribute(
        InstanceId=host, Attribute="instanceInitiatedShutdownBehavior"
    )
    assert told["InstanceInitiatedShutdownBehavior"]["Value"] == "terminate"
    assert yard.instance(host)["NetworkInterfaces"][0]["Groups"] == groups
    wrong = {"InstanceId": host, "InstanceInitiatedShutdownBehavior": {"Value": "explode"}}
    assert error_code(yard.ec2.modify_instance_attribute, **wrong) == "InvalidParameterValue"


COUNTS_ITS_BOOTS = """#!/bin/sh
cat > /etc/systemd/system/count.service <<END
[Service]
Type=oneshot
ExecStart=/bin/sh -c "echo up >> /opt/boots"
[Install]
WantedBy=multi-user.target
END
systemctl enable --now count.service
"""
POWER_OFF = "#!/bin/sh\necho going-down\npoweroff\n"


def test_a_host_that_powers_off_is_terminated_where_the_template_says_so(yard: Yard) -> None:
    host = yard.run(UserData=POWER_OFF, InstanceInitiatedShutdownBehavior="terminate")[0]
    gone = yard.becomes(host, "terminated")
    assert gone["StateReason"]["Code"] == "Client.InstanceInitiatedShutdown"


def test_a_host_that_powers_off_is_stopped_otherwise(yard: Yard) -> None:
    host = yard.run(UserData=POWER_OFF)[0]
    stopped = yard.becomes(host, "stopped")
    assert stopped["StateReason"]["Code"] == "Client.InstanceInitiatedShutdown"


def test_the_console_of_a_host_can_be_read(yard: Yard) -> None:
    host = yard.run()[0]
    name = yard.becomes(host, "running")["PrivateDnsName"].split(".")[0]
    eventually(lambda: name in yard.ec2.get_console_output(InstanceId=host).get("Output", ""))


def test_what_user_data_prints_is_on_the_console(yard: Yard) -> None:
    host = yard.run(UserData="#!/bin/sh\necho said by user data\n")[0]
    eventually(lambda: "said by user data" in yard.ec2.get_console_output(InstanceId=host).get("Output", ""))
    assert "said by user data" in yard.printed(host)


def test_a_rebooted_host_keeps_disk_address_and_state(yard: Yard) -> None:
    host = yard.run(UserData=COUNTS_ITS_BOOTS)[0]
    before = yard.becomes(host, "running")
    boots = yard.cloud.state / "instances" / host / "upper" / "opt" / "boots"
    eventually(lambda: boots.exists() and boots.read_text() == "up\n")
    yard.ec2.reboot_instances(InstanceIds=[host])
    eventually(lambda: boots.read_text() == "up\nup\n")
    after = yard.instance(host)
    assert (after["State"]["Name"], after["PrivateIpAddress"]) == ("running", before["PrivateIpAddress"])
    assert yard.states_seen(host) == ["pending", "running"]


def test_only_what_runs_is_rebooted(yard: Yard) -> None:
    gone, stopped = yard.run(2)
    yard.becomes(stopped, "running")
    yard.ec2.terminate_instances(InstanceIds=[gone])
    yard.ec2.stop_instances(InstanceIds=[stopped])
    assert error_code(yard.ec2.reboot_instances, InstanceIds=[stopped]) == "IncorrectInstanceState"
    yard.ec2.reboot_instances(InstanceIds=[gone])
    assert yard.state(gone) in ("shutting-down", "terminated")


def test_the_launch_time_is_now(yard: Yard) -> None:
    host = yard.run()[0]
    assert abs(yard.instance(host)["LaunchTime"] - datetime.now(UTC)) < timedelta(minutes=1)
