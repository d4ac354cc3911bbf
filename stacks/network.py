"""The network of hosts: every zone that the account has in the region, without access from outside."""

import os
import re

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import cloud_assembly_schema
from constructs import Construct

from stacks.constructs.acknowledge import acknowledge
from stacks.settings import YardSettings
from trainyard.protocol.file_systems import FileSystemKind

TENSORFLOW_PORTS = ec2.Port.tcp_range(1024, 65535)
"""Ports between members of a gang: TensorFlow's server listens on 2222, NCCL picks its ports."""

OF_REGION = r"[a-z]+(-[a-z]+)+-\d+[a-z]"
"""A zone of the region itself (us-east-1a). Local and Wavelength Zones (us-east-1-bos-1a) have few types."""

HOST_SERVICES = {
    "Ssm": ec2.InterfaceVpcEndpointAwsService.SSM,
    "SsmMessages": ec2.InterfaceVpcEndpointAwsService.SSM_MESSAGES,
    "Ec2Messages": ec2.InterfaceVpcEndpointAwsService.EC2_MESSAGES,
    "Events": ec2.InterfaceVpcEndpointAwsService.EVENTBRIDGE,
    "Logs": ec2.InterfaceVpcEndpointAwsService.CLOUDWATCH_LOGS,
    "Monitoring": ec2.InterfaceVpcEndpointAwsService.CLOUDWATCH_MONITORING,
    "Sts": ec2.InterfaceVpcEndpointAwsService.STS,
}


class NetworkStack(cdk.Stack):
    """A network whose hosts reach AWS and each other, and that is unreachable from outside."""

    def __init__(self, scope: Construct, settings: YardSettings) -> None:
        super().__init__(
            scope,
            "Network",
            stack_name=f"{settings.prefix}-Network",
            description="Trainyard: the network of the hosts",
        )
        vpc = self._vpc_of_the_user(settings) if settings.vpc else self._vpc(settings)
        self.hosts = self._hosts_security_group(vpc, settings)
        self.s3_vpc = vpc.vpc_id if settings.s3_endpoint or not settings.vpc else None
        """The VPC whose S3 endpoint hosts use; None without a known endpoint."""
        if settings.private:
            self._interface_endpoints(vpc)

    @property
    def subnet_ids(self) -> str:
        """Return the subnets as functions read them, separated by commas."""
        return cdk.Fn.join(",", self._subnets)

    @property
    def launch_arns(self) -> list[str]:
        """Return the ARNs of the subnets and the security group for launches."""
        named = [("subnet", subnet) for subnet in self._subnets]
        named.append(("security-group", self.hosts.security_group_id))
        return [self.format_arn(service="ec2", resource=kind, resource_name=name) for kind, name in named]

    def _vpc_of_the_user(self, settings: YardSettings) -> ec2.IVpc:
        """Return the user's VPC. The yard only adds a security group to it. Functions read its zones at run time."""
        self._subnets = list(settings.subnets)
        return ec2.Vpc.from_vpc_attributes(
            self, "Vpc", vpc_id=settings.vpc, availability_zones=self.availability_zones
        )

    def _vpc(self, settings: YardSettings) -> ec2.Vpc:
        vpc = ec2.Vpc(
            self,
            "Vpc",
            ip_addresses=ec2.IpAddresses.cidr("10.73.0.0/16"),
            availability_zones=list(settings.zones) or self._zones_of_account(),
            nat_gateways=0,
            subnet_configuration=[_hosts_subnets(settings)],
            gateway_endpoints={
                "S3": ec2.GatewayVpcEndpointOptions(service=ec2.GatewayVpcEndpointAwsService.S3)
            },
            restrict_default_security_group=False,  # would cost a custom resource; nothing uses that group
        )
        subnets = vpc.select_subnets(subnet_group_name="Hosts").subnets
        _configure_linter(subnets)
        acknowledge(vpc, "VPC7", "Nothing can connect to a host; flow logs would bill every byte trained on.")
        self._subnets = [subnet.subnet_id for subnet in subnets]
        return vpc

    def _zones_of_account(self) -> list[str]:
        """Return the zones of the account. The command `cdk` requests them from EC2, caches the answer in
        cdk.context.json, and starts again. Without a known account, return two zones, which every region has."""
        account = _find_known(self.account) or os.environ.get("CDK_DEFAULT_ACCOUNT")
        region = _find_known(self.region) or os.environ.get("CDK_DEFAULT_REGION")
        if account and region:
            key = f"availability-zones:account={account}:region={region}"
            zones = self.node.try_get_context(key)
            if zones is not None:
                return sorted(zone for zone in zones if re.fullmatch(OF_REGION, zone))
            self.report_missing_context_key(
                key=key,
                provider=cloud_assembly_schema.ContextProvider.AVAILABILITY_ZONE_PROVIDER,
                props=cloud_assembly_schema.AvailabilityZonesContextQuery(account=account, region=region),
            )
        return [cdk.Fn.select(index, cdk.Fn.get_azs()) for index in range(2)]

    def _hosts_security_group(self, vpc: ec2.IVpc, settings: YardSettings) -> ec2.SecurityGroup:
        """Return the security group. Only members of the gang may connect to each other."""
        hosts = ec2.SecurityGroup(
            self,
            "Hosts",
            vpc=vpc,
            description="Hosts of the yard: no access from outside",
            allow_all_outbound=False,
        )
        hosts.add_ingress_rule(hosts, TENSORFLOW_PORTS, "a gang trains together")
        hosts.add_egress_rule(hosts, TENSORFLOW_PORTS, "a gang trains together")
        hosts.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(443), "AWS and the package index, by TLS")
        for kind in FileSystemKind:
            for first, last in kind.ports if any(each.kind is kind for each in settings.file_systems) else ():
                hosts.add_egress_rule(
                    ec2.Peer.any_ipv4(), ec2.Port.tcp_range(first, last), f"{kind.service}, as data"
                )
        return hosts

    def _interface_endpoints(self, vpc: ec2.IVpc) -> None:
        addresses = ec2.SecurityGroup(
            self,
            "Endpoints",
            vpc=vpc,
            description="AWS services, for hosts without a public address",
            allow_all_outbound=False,
        )
        addresses.add_ingress_rule(self.hosts, ec2.Port.tcp(443), "hosts of the yard")
        for name, service in HOST_SERVICES.items():
            vpc.add_interface_endpoint(name, service=service, security_groups=[addresses], open=False)


def _configure_linter(subnets: list[ec2.ISubnet]) -> None:
    """Accept named zones: Fn::GetAZs omits zones without a default subnet."""
    for subnet in subnets:
        plain = subnet.node.default_child
        assert isinstance(plain, ec2.CfnSubnet)
        plain.add_metadata("cfn-lint", {"config": {"ignore_checks": ["W3010"]}})


def _find_known(text: str) -> str | None:
    return None if cdk.Token.is_unresolved(text) else text


def _hosts_subnets(settings: YardSettings) -> ec2.SubnetConfiguration:
    if settings.private:
        return ec2.SubnetConfiguration(
            name="Hosts", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED, cidr_mask=20
        )
    return ec2.SubnetConfiguration(
        name="Hosts", subnet_type=ec2.SubnetType.PUBLIC, cidr_mask=20, map_public_ip_on_launch=True
    )
