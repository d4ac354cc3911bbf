"""The entrance to the simulated AWS: botocore's transport, permissions and request rates."""
