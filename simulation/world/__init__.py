"""A simulated world: virtual time, chance, processes and the trace."""
