"""A yard in your own CDK app: in your VPC, with your permissions boundary and your log retention.

    cdk deploy --all --app 'python3 -m examples.embedded.app'

The same lines work in an app of another repository, with this repository's folder on PYTHONPATH.
"""

from dataclasses import replace

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.settings import YardSettings
from stacks.yard import Yard


class Platform(cdk.Stack):
    """The resources that a team already has: a network without internet access, and a permissions boundary for
    roles."""

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
        YardSettings.of(app),  # the settings of your context, such as `-c bake_on_deploy=false`
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
