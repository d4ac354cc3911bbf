"""The commands of `trainyard schedules`, a file each."""
