"""The commands of `trainyard dev`, a file each."""
