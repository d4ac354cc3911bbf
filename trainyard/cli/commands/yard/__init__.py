"""The commands of `trainyard yard`, a file each."""
