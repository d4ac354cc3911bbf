"""What `cdk deploy` starts: one yard, checked against the AWS Solutions rules before anything is deployed."""

import aws_cdk as cdk
from cdk_nag import AwsSolutionsChecks

from stacks.yard import Yard
from trainyard.core.model.yard.settings import refuse_unknown

app = cdk.App()
for key in app.node.get_all_context():
    if not {":", "/"} & set(key):  # else the CDK's own
        refuse_unknown(key)
Yard(app)
cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
app.synth()
