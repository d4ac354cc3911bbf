"""The door to the simulated AWS: how botocore comes in, who may, how often."""
