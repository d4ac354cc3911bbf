"""Security groups from the view of hosts: traffic without a rule is dropped in both directions."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.contract.conftest import eventually
from tests.contract.hosts.conftest import Hosts
from tests.contract.hosts.groups import LOST, REFUSED, becomes, group, port_9
from tests.contract.hosts.knocking import CALL, TOKEN, knock, seen, watching


def test_a_port_is_open_to_whom_a_rule_names_and_for_as_long(hosts: Hosts) -> None:
    inside, outside = group(hosts), group(hosts)
    guarded = hosts.one(SecurityGroupIds=[inside])
    friend, stranger = hosts.one(SecurityGroupIds=[inside]), hosts.one(SecurityGroupIds=[outside])
    door = knock(hosts, guarded)
    assert (hosts.run(friend, door), hosts.run(stranger, door)) == (LOST, LOST), (
        "a new group allows no inbound traffic"
    )
    rule = {"GroupId": inside, "IpPermissions": [port_9(inside)]}
    hosts.ec2.authorize_security_group_ingress(**rule)
    becomes(hosts, friend, door, REFUSED)
    assert hosts.run(stranger, door) == LOST
    newcomer = hosts.one(SecurityGroupIds=[inside])
    becomes(hosts, newcomer, door, REFUSED)
    hosts.ec2.revoke_security_group_ingress(**rule)
    becomes(hosts, friend, door, LOST)
    hosts.ec2.authorize_security_group_ingress(GroupId=inside, IpPermissions=[port_9(protocol="udp")])
    time.sleep(0.5)
    assert hosts.run(friend, door) == LOST, "a rule is of one protocol"
    hosts.ec2.authorize_security_group_ingress(GroupId=inside, IpPermissions=[port_9()])
    becomes(hosts, stranger, door, REFUSED)


def test_a_host_sends_only_what_a_rule_lets_out(hosts: Hosts) -> None:
    outgoing, target = group(hosts), group(hosts)
    hosts.ec2.authorize_security_group_ingress(GroupId=target, IpPermissions=[port_9()])
    sender, receiver = hosts.one(SecurityGroupIds=[outgoing]), hosts.one(SecurityGroupIds=[target])
    door = knock(hosts, receiver)
    assert hosts.run(sender, door) == REFUSED
    everywhere = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
    https = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
    hosts.ec2.authorize_security_group_egress(GroupId=outgoing, IpPermissions=[https])
    hosts.ec2.revoke_security_group_egress(GroupId=outgoing, IpPermissions=[everywhere])
    becomes(hosts, sender, door, LOST)
    assert hosts.run(sender, CALL) == "403", "AWS is reached by TLS"
    hosts.ec2.authorize_security_group_egress(GroupId=outgoing, IpPermissions=[port_9(target)])
    becomes(hosts, sender, door, REFUSED)


def test_without_a_way_out_neither_aws_nor_systems_manager_is_reached_but_the_metadata_is(
    hosts: Hosts,
) -> None:
    alone = group(hosts)
    fenced = hosts.one(SecurityGroupIds=[alone])
    watching(hosts, fenced, f"( {CALL}; {TOKEN} )")
    eventually(lambda: seen(hosts, fenced) == "403200")
    everywhere = {
        "GroupId": alone,
        "IpPermissions": [{"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}],
    }
    hosts.ec2.revoke_security_group_egress(**everywhere)
    eventually(lambda: seen(hosts, fenced) == "000200")
    sent = hosts.send([fenced], "echo heard")
    assert hosts.ssm.list_command_invocations(CommandId=sent)["CommandInvocations"][0]["Status"] == "Pending"
    hosts.ec2.authorize_security_group_egress(**everywhere)
    assert hosts.over(sent, fenced)["Status"] == "Success"
    eventually(lambda: seen(hosts, fenced) == "403200")


def test_networks_do_not_know_of_each_other(hosts: Hosts, network: Callable[[str], str]) -> None:
    vpc = network("10.77.0.0/16")
    subnet = hosts.ec2.create_subnet(VpcId=vpc, CidrBlock="10.77.1.0/24")["Subnet"]["SubnetId"]
    there = group(hosts, vpc)
    hosts.ec2.authorize_security_group_ingress(GroupId=there, IpPermissions=[port_9()])
    foreign, neighbour = (hosts.one(SubnetId=subnet, SecurityGroupIds=[there]) for _ in range(2))
    home = hosts.one()
    assert hosts.run(neighbour, knock(hosts, foreign)) == REFUSED
    assert hosts.run(home, knock(hosts, foreign)) == LOST


def test_the_default_group_lets_its_own_members_in(hosts: Hosts, network: Callable[[str], str]) -> None:
    vpc = network("10.78.0.0/16")
    found = hosts.ec2.describe_security_groups(Filters=[{"Name": "vpc-id", "Values": [vpc]}])[
        "SecurityGroups"
    ]
    [rule] = found[0]["IpPermissions"]
    assert rule["IpProtocol"] == "-1"
    assert [pair["GroupId"] for pair in rule["UserIdGroupPairs"]] == [found[0]["GroupId"]]


def test_rules_come_with_a_host_that_starts_again(hosts: Hosts) -> None:
    inside = group(hosts)
    hosts.ec2.authorize_security_group_ingress(GroupId=inside, IpPermissions=[port_9()])
    guarded, other = hosts.one(SecurityGroupIds=[inside]), hosts.one()
    hosts.stop_and_start(guarded)
    assert hosts.run(other, knock(hosts, guarded)) == REFUSED
    hosts.ec2.modify_instance_attribute(InstanceId=guarded, Groups=[group(hosts)])
    becomes(hosts, other, knock(hosts, guarded), LOST)
    card = hosts.instance(guarded)["NetworkInterfaces"][0]["NetworkInterfaceId"]
    hosts.ec2.modify_network_interface_attribute(NetworkInterfaceId=card, Groups=[inside])
    becomes(hosts, other, knock(hosts, guarded), REFUSED)
    assert [each["GroupId"] for each in hosts.instance(guarded)["SecurityGroups"]] == [inside]
