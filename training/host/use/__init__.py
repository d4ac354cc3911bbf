"""The use of a host's processors, memory, disk, network and GPUs while its program runs."""
