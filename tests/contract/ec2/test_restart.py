"""A restart with `down` and `up` keeps the region's state and stops running instances."""

from tests.contract.conftest import Cloud
from tests.contract.ec2.conftest import Yard, members, tags


def test_hosts_images_templates_and_fleets_are_there_again(own_cloud: Cloud) -> None:
    yard = Yard(own_cloud)
    template = yard.template()
    fleet = yard.fleet(
        template,
        ["g6.xlarge/a"],
        1,
        TagSpecifications=tags("fleet", "instance", run="kept"),
        ClientToken="once",
    )
    spot, kept, stopped = (
        members(fleet)[0],
        yard.run()[0],
        yard.run(UserData="#!/bin/sh\necho first-boot\n")[0],
    )
    for host in (spot, kept, stopped):
        yard.becomes(host, "running")
    yard.ec2.stop_instances(InstanceIds=[stopped])
    yard.becomes(stopped, "stopped")
    image = yard.ec2.create_image(InstanceId=stopped, Name="kept-image")["ImageId"]
    yard.ec2.get_waiter("image_available").wait(ImageIds=[image], WaiterConfig={"Delay": 1})
    own_cloud.down()
    own_cloud.up()
    yard.becomes(spot, "terminated")
    yard.becomes(kept, "stopped")
    assert yard.state(stopped) == "stopped"
    assert members(
        yard.fleet(
            template,
            ["g6.xlarge/a"],
            1,
            TagSpecifications=tags("fleet", "instance", run="kept"),
            ClientToken="once",
        )
    ) == [spot]
    assert yard.ec2.describe_images(ImageIds=[image])["Images"][0]["State"] == "available"
    yard.ec2.start_instances(InstanceIds=[kept, stopped])
    yard.becomes(kept, "running")
    yard.becomes(stopped, "running")
    new = yard.run(ImageId=image)[0]
    yard.becomes(new, "running")
    addresses = [yard.instance(host)["PrivateIpAddress"] for host in (spot, kept, stopped, new)]
    assert [address.rpartition(".")[2] for address in addresses] == ["4", "5", "6", "7"]
    yard.ec2.terminate_instances(InstanceIds=[spot, kept, stopped])
    for host in (spot, kept, stopped):
        yard.becomes(host, "terminated")
