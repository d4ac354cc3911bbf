"""What `cdk deploy` starts: one yard, checked against the AWS Solutions rules before anything is deployed."""

import aws_cdk as cdk
from cdk_nag import AwsSolutionsChecks

from stacks.yard import Yard

app = cdk.App()
Yard(app)
cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
app.synth()
