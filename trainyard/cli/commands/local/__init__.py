"""The commands of `trainyard local`, a file each."""
