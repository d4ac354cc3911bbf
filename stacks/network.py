"""Where hosts live: three zones, no way in from outside."""

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from stacks.constructs.acknowledge import acknowledge
from stacks.settings import YardSettings

TENSORFLOW_PORTS = ec2.Port.tcp_range(1024, 65535)
"""Between members of a gang: TensorFlow's own server listens on 2222, NCCL picks its ports."""

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
    """A network whose hosts reach AWS and each other, and that nothing else can reach."""

    def __init__(self, scope: Construct, name: str, settings: YardSettings) -> None:
        super().__init__(scope, name, description="Trainyard: the network of the hosts")
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            ip_addresses=ec2.IpAddresses.cidr("10.73.0.0/16"),
            # Asked for at deployment: without an account at synthesis CDK itself would settle for two zones.
            availability_zones=[cdk.Fn.select(index, cdk.Fn.get_azs()) for index in range(3)],
            nat_gateways=0,
            subnet_configuration=[_hosts_subnets(settings)],
            gateway_endpoints={
                "S3": ec2.GatewayVpcEndpointOptions(service=ec2.GatewayVpcEndpointAwsService.S3)
            },
            restrict_default_security_group=False,  # would cost a custom resource; nothing uses that group
        )
        acknowledge(
            self.vpc, "VPC7", "Nothing can connect to a host; flow logs would bill every byte trained on."
        )
        self.hosts = self._hosts_security_group()
        if settings.private:
            self._interface_endpoints()

    @property
    def subnets(self) -> list[ec2.ISubnet]:
        """One for each zone."""
        return self.vpc.select_subnets(subnet_group_name="Hosts").subnets

    @property
    def subnet_ids(self) -> str:
        """As functions read them: one after the other, by commas."""
        return cdk.Fn.join(",", [subnet.subnet_id for subnet in self.subnets])

    @property
    def launch_arns(self) -> list[str]:
        """The subnets and the security group that a host may be launched into."""
        named = [("subnet", subnet.subnet_id) for subnet in self.subnets]
        named.append(("security-group", self.hosts.security_group_id))
        return [self.format_arn(service="ec2", resource=kind, resource_name=name) for kind, name in named]

    def _hosts_security_group(self) -> ec2.SecurityGroup:
        """No way in, but for the members of a gang to each other: they compute together."""
        hosts = ec2.SecurityGroup(
            self,
            "Hosts",
            vpc=self.vpc,
            description="Hosts of the yard: no way in from outside",
            allow_all_outbound=False,
        )
        hosts.add_ingress_rule(hosts, TENSORFLOW_PORTS, "a gang trains together")
        hosts.add_egress_rule(hosts, TENSORFLOW_PORTS, "a gang trains together")
        hosts.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(443), "AWS and the package index, by TLS")
        return hosts

    def _interface_endpoints(self) -> None:
        addresses = ec2.SecurityGroup(
            self,
            "Endpoints",
            vpc=self.vpc,
            description="AWS services, for hosts without a public address",
            allow_all_outbound=False,
        )
        addresses.add_ingress_rule(self.hosts, ec2.Port.tcp(443), "hosts of the yard")
        for name, service in HOST_SERVICES.items():
            self.vpc.add_interface_endpoint(name, service=service, security_groups=[addresses], open=False)


def _hosts_subnets(settings: YardSettings) -> ec2.SubnetConfiguration:
    if settings.private:
        return ec2.SubnetConfiguration(
            name="Hosts", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED, cidr_mask=20
        )
    return ec2.SubnetConfiguration(
        name="Hosts", subnet_type=ec2.SubnetType.PUBLIC, cidr_mask=20, map_public_ip_on_launch=True
    )
