"""A yard in an app of your own: in your VPC, under your permissions boundary, with your log retention.

    cdk deploy --all --app 'python3 -m examples.embedded.app'

In an app of another repository the same lines do, with this repository's folder on PYTHONPATH.
"""

from dataclasses import replace

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.settings import YardSettings
from stacks.yard import Yard


class Platform(cdk.Stack):
    """What a team has already: a network without a way to the internet, and a bound for whatever roles are made."""

    def __init__(self, scope: Construct, name: str) -> None:
        super().__init__(scope, name)
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            ip_addresses=ec2.IpAddresses.cidr("10.90.0.0/16"),
            max_azs=2,
            nat_gateways=0,
            subnet_configuration=[
                ec2.SubnetConfiguration(name="Compute", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED)
            ],
            gateway_endpoints={
                "S3": ec2.GatewayVpcEndpointOptions(service=ec2.GatewayVpcEndpointAwsService.S3)
            },
            restrict_default_security_group=False,
        )
        for service in (
            ec2.InterfaceVpcEndpointAwsService.SSM,
            ec2.InterfaceVpcEndpointAwsService.SSM_MESSAGES,
            ec2.InterfaceVpcEndpointAwsService.EVENTBRIDGE,
            ec2.InterfaceVpcEndpointAwsService.CLOUDWATCH_LOGS,
            ec2.InterfaceVpcEndpointAwsService.CLOUDWATCH_MONITORING,
            ec2.InterfaceVpcEndpointAwsService.STS,
        ):
            self.vpc.add_interface_endpoint(service.short_name, service=service)
        self.boundary = iam.ManagedPolicy(
            self,
            "Boundary",
            statements=[
                iam.PolicyStatement(actions=["*"], resources=["*"]),
                iam.PolicyStatement(
                    effect=iam.Effect.DENY,
                    actions=["iam:Create*", "iam:Put*", "iam:Attach*"],
                    resources=["*"],
                ),
            ],
        )


app = cdk.App()
platform = Platform(app, "Platform")
Yard(
    app,
    replace(
        YardSettings.of(app),  # what your context says, as with `-c bake_on_deploy=false`
        prefix="Research",
        vpc=platform.vpc.vpc_id,
        subnets=tuple(subnet.subnet_id for subnet in platform.vpc.isolated_subnets),
        s3_endpoint=True,
        permissions_boundary=platform.boundary.managed_policy_arn,
        log_days=90,
        monthly_dollars=500,
    ),
)
app.synth()
