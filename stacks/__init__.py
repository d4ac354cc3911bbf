"""What is deployed: one file per stack, one per construct that several of them use."""
