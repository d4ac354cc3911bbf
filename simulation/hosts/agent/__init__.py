"""The agent of a simulated host: what the real one does and says (training/host/agent)."""
