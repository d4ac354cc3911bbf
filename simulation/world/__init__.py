"""Time, chance, processes and the trace: what a simulated world is made of."""
