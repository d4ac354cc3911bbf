import aws_cdk as cdk

from stacks.settings import YardSettings
from stacks.yard import Yard

app = cdk.App()
yard = Yard(app, YardSettings(prefix="Research", monthly_dollars=500, log_days=90))
cdk.Tags.of(yard).add("cost-center", "research")
cdk.CfnOutput(yard.storage, "TrainingBucket", value=yard.storage.bucket.bucket_name)
app.synth()
