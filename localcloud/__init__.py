"""AWS on one machine: an endpoint for the unmodified `cdk`, `aws` and boto3, and hosts that run real processes.

This package is independent of the product that is deployed to it. Start reading at `cli` (the commands), then
`supervisor` (process lifetime), then `server` (installed parts and their order).
"""
