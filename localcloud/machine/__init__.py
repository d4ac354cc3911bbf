"""Hosts that run real processes without a virtual machine."""
