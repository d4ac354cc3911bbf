"""Observe in an AWS account what docs/unverified.md only assumes: `make aws-check`."""
