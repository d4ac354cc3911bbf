"""The commands of `trainyard`: a file each, a folder for each group. `trainyard why` is why.py."""
