"""The commands of `trainyard webhook`, a file each."""
