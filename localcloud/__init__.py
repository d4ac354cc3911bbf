"""AWS on one machine: an endpoint the unmodified `cdk`, `aws` and boto3 talk to, and hosts that really run.

It knows nothing of the product that is deployed to it. Start reading at `cli` (what a person types),
then `supervisor` (what certainly ends), then `server` (which seams are installed, in which order).
"""
