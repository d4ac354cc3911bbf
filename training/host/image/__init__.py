"""Disks that become images, or come from images."""
