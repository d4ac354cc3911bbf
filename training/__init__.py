"""What runs on the hosts: the agent (host), what programs use (runtime), the reference programs (programs)."""
