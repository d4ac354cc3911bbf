"""The commands of `trainyard image`, a file each."""
