"""The commands of `trainyard study`, a file each."""
