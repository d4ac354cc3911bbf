"""The commands of `trainyard models`, a file each."""
