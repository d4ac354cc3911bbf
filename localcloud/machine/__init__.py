"""Hosts that really run, without a virtual machine."""
