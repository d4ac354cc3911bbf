"""The agent of a simulated host, modeled on training/host/agent."""
