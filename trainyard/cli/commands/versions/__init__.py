"""The commands of `trainyard versions`, a file each."""
